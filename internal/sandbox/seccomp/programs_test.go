package seccomp_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/runtime"
)

// What agents run must not notice the filter. Each script prints "fine" at its
// end. There is no test for what this machine does not have installed.
func TestKernel_ProgramsWork(t *testing.T) {
	for name, tc := range map[string]struct {
		needs  string
		script string
	}{
		"coreutils": {"sh", `
			mkdir d && seq 1000 >d/a && cp -a d e && cp --reflink=auto d/a f && sort -R f | sort -n | cmp - d/a
			dd if=f of=g bs=1k status=none; ln -s g h; mkfifo p; (cat g >p &) ; cat p >/dev/null; tail -n1 g >/dev/null
			chmod 4755 g; touch -d yesterday g; mv g i; timeout 5 true; nice true; stat -f . >/dev/null; rm -r d e`},
		"bash jobs": {"bash", `bash -c 'sleep 5 & kill %1; wait; coproc cat; echo x >&${COPROC[1]}; read -u ${COPROC[0]} l; [ $l = x ]'`},
		"tar":       {"tar", `mkdir d; seq 9 >d/a; tar czf d.tgz d; mkdir e; tar xzf d.tgz -C e; cmp d/a e/d/a`},
		"python threads, processes, sockets": {"python3", `python3 -c '
import asyncio, ctypes, multiprocessing, os, select, shutil, socket, subprocess, tempfile, threading
threads = [threading.Thread(target=sum, args=(range(1000),)) for _ in range(20)]
[t.start() for t in threads]; [t.join() for t in threads]
assert multiprocessing.Pool(2).map(abs, [-1, -2]) == [1, 2]
assert subprocess.run(["echo", "x"], capture_output=True).stdout == b"x\n"
a, b = socket.socketpair(); a.send(b"x"); assert b.recv(1) == b"x"
async def run():
    p = await asyncio.create_subprocess_exec("true"); await p.wait()
    s = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0); s.close()
asyncio.run(run())
os.close(os.pidfd_open(os.getpid())); os.close(os.memfd_create("x"))
open("a", "w").write("x" * 100000); shutil.copy("a", "b"); os.sendfile
'`},
		"python venv": {"python3", `python3 -m venv --without-pip v && v/bin/python -c 'import sys; assert sys.prefix != sys.base_prefix'`},
		"node": {"node", `node -e '
const {Worker} = require("worker_threads"), fs = require("fs"), net = require("net"), cp = require("child_process");
fs.writeFileSync("a", "x".repeat(100000)); fs.copyFileSync("a", "b");
cp.execSync("true");
const s = net.createServer(c => c.end()).listen(0, "127.0.0.1", () => net.connect(s.address().port).on("close", () => s.close()).resume());
new Worker("1+1", {eval: true}).on("exit", c => { if (c) process.exit(1) });
fs.promises.readFile("a").then(b => { if (b.length != 100000) process.exit(1) });'`},
		"npm": {"npm", `mkdir p; (cd p && npm init -y --silent && echo 'module.exports = 1' >index.js && npm pack --silent); npm init -y --silent
			npm install --offline --no-audit --no-fund --silent ./p/p-1.0.0.tgz && node -e 'if (require("p") !== 1) process.exit(1)'`},
		"pip": {"pip3", `python3 -c '
import zipfile
with zipfile.ZipFile("x-1-py3-none-any.whl", "w") as w:
    w.writestr("x.py", "print(1)"); w.writestr("x-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: x\nVersion: 1\n")
    w.writestr("x-1.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"); w.writestr("x-1.dist-info/RECORD", "")'
			pip3 install --quiet --no-index --no-warn-script-location --disable-pip-version-check --root-user-action=ignore --target t ./x-1-py3-none-any.whl && PYTHONPATH=t python3 -m x`}, //nolint:lll // one command
		"gcc":  {"gcc", `printf '#include <pthread.h>\nstatic void*f(void*p){return p;}int main(){pthread_t t;return pthread_create(&t,0,f,0)||pthread_join(t,0);}' >a.c && gcc -O1 -pthread a.c -o a && ./a`},
		"go":   {"go", `printf 'package main\nfunc main(){c:=make(chan int);go func(){c<-1}();<-c}' >a.go && GOFLAGS= GO111MODULE=off go run a.go`},
		"git":  {"git", `git init -q r && cd r && seq 99 >a && git add a && git -c user.name=x -c user.email=x@x commit -qm x && git gc -q && git clone -q . ../s`},
		"dpkg": {"dpkg-deb", `mkdir -p p/DEBIAN p/opt && printf 'Package: x\nVersion: 1\nArchitecture: all\nMaintainer: x\nDescription: x\n' >p/DEBIAN/control && dpkg-deb -b p x.deb && dpkg-deb -x x.deb q`},
		"apt":  {"apt-get", `apt-get --version && apt-cache policy bash`},
		"perl": {"perl", `perl -e 'pipe R, W; if (!fork) { print W "x\n"; exit } wait; close W; exit(<R> ne "x\n")'`},
		"xz":   {"xz", `seq 100000 | xz -T2 | xz -d | tail -n1`},
	} {
		if _, err := exec.LookPath(tc.needs); err != nil {
			t.Log(err)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, stderr, err := inChild(t, runtime.SeccompStrict, nil, "exec", "sh", "-ec", tc.script+"\necho fine")
			if err != nil || !strings.HasSuffix(out, "fine\n") {
				t.Errorf("%v\n%s%s", err, out, stderr)
			}
		})
	}
}

// Debuggers work in the profile that is for them, and in no other: gdb stops a
// program and reads its memory.
func TestKernel_DebuggersWork(t *testing.T) {
	for program, script := range map[string]string{
		"gdb":    `gdb -nx -batch -ex 'catch syscall exit_group' -ex run -ex 'info registers rip' --args true 2>&1 | grep '^rip'`,
		"strace": `strace -f -o log sh -c 'true; exit 0'; grep -q 'exit_group(0)' log`,
	} {
		if _, err := exec.LookPath(program); err != nil {
			t.Log(err)
			continue
		}
		for mode, works := range map[runtime.SeccompMode]bool{runtime.SeccompMVP: true, runtime.SeccompStrict: false} {
			out, stderr, err := inChild(t, mode, nil, "exec", "sh", "-ec", script+"\necho fine")
			if got := err == nil && strings.HasSuffix(out, "fine\n"); got != works {
				t.Errorf("%s in %s: works %t, %v\n%s%s", program, mode, got, err, out, stderr)
			}
		}
	}
}
