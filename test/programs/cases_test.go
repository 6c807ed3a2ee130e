package programs

// program is one of what people run in sandboxes, and how it is tried: the script
// must print ok as its last line. One that does not work has the reason as users
// are told it, and a script that shows it.
type program struct {
	name   string
	does   string // what is tried, for the page
	not    string // why it does not work; empty if it does
	mode   string // of security.seccomp; empty is strict
	script string
}

// accounts are tried in every run, with the image that all tests have.
var accounts = []program{
	{name: "useradd, usermod, groupadd, gpasswd, userdel", does: "a user with a home directory and a group comes and goes", script: `
		groupadd team && useradd -m -s /bin/bash ann && usermod -aG team ann && gpasswd -a ann users >/dev/null && id ann | grep -q team &&
		test "$(stat -c %U /home/ann)" = ann && userdel -r ann && ! id ann 2>/dev/null && groupdel team && echo ok`},
	{name: "chpasswd, passwd, chsh, chage", does: "password, shell and expiry are changed", script: `
		useradd -m bob && echo bob:secret | chpasswd && passwd -l bob >/dev/null && passwd -u bob >/dev/null && chsh -s /bin/sh bob &&
		chage -M 90 bob && grep -q '^bob:\$y\$' /etc/shadow && passwd -S bob | grep -q '^bob P' && userdel bob && echo ok`},
	{name: "su, runuser", does: "root becomes another user, with PAM", script: `
		useradd -m eve && test "$(su - eve -c 'id -un; pwd')" = "$(printf 'eve\n/home/eve')" && test "$(runuser -u eve -- id -un)" = eve &&
		test "$(runuser -l eve -c whoami)" = eve && echo ok`},
	{name: "dpkg", does: "a package whose postinst makes a user is installed and purged", script: deb + `
		dpkg -i /tmp/maker.deb >/dev/null && id maker >/dev/null && dpkg -s maker | grep -q 'install ok installed' &&
		dpkg -P maker >/dev/null && ! id maker 2>/dev/null && echo ok`},
	{name: "apt-get", does: "the same from a file, with its own user `_apt`", script: deb + `
		apt-get install -y /tmp/maker.deb >/dev/null 2>&1 && id maker >/dev/null && apt-get purge -y maker >/dev/null 2>&1 && ! id maker 2>/dev/null && echo ok`},
}

// deb makes /tmp/maker.deb.
const deb = `
		rm -rf /tmp/maker && mkdir -p /tmp/maker/DEBIAN /tmp/maker/usr/share/maker && echo hello >/tmp/maker/usr/share/maker/file &&
		printf 'Package: maker\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@localhost>\nDescription: makes a user\n' >/tmp/maker/DEBIAN/control &&
		printf '#!/bin/sh\nset -e\nuseradd --system --home-dir /nonexistent --shell /usr/sbin/nologin maker\nchown maker: /usr/share/maker/file\n' >/tmp/maker/DEBIAN/postinst &&
		printf '#!/bin/sh\nset -e\nuserdel maker\n' >/tmp/maker/DEBIAN/prerm && chmod 755 /tmp/maker/DEBIAN/p* &&
		dpkg-deb -b /tmp/maker /tmp/maker.deb >/dev/null &&`

// sshKey makes the user ann with a key of hers and one of a server's.
const sshKey = `
		useradd -m -d /srv/ann ann && mkdir /srv/ann/.ssh && for k in id host; do ssh-keygen -q -t ed25519 -N '' -f /srv/ann/.ssh/$k; done &&
		chown -R ann: /srv/ann/.ssh && chmod 700 /srv/ann/.ssh && SSH="-i /srv/ann/.ssh/id -o StrictHostKeyChecking=no -o LogLevel=ERROR" &&`

// servers are tried in the long tier, with an image that has them.
var servers = []program{
	{name: "sudo", does: "root runs a command as another user", script: `
		useradd -m ann && test "$(sudo -n -u ann id -un)" = ann && sudo -n true && echo ok`},
	{name: "sudo and other setuid programs", does: "a user becomes root", not: "`no_new_privs` is set: nobody gets more rights than the command began with", script: `
		useradd -m joe && echo 'joe ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/joe && runuser -u joe -- sudo -n id -un 2>&1 | grep -q 'no new privileges' && echo ok`},
	{name: "cron", does: "a job of root's and a user's crontab run", script: `
		useradd -m tim; echo '* * * * * root date >/tmp/ran' >/etc/cron.d/job; echo '* * * * * date >/tmp/ran-tim' | crontab -u tim - &&
		cron && for i in $(seq 75); do test -s /tmp/ran && test -s /tmp/ran-tim && break; sleep 1; done; test -s /tmp/ran && test -s /tmp/ran-tim && pkill cron && echo ok`},
	{name: "sshd as a user", does: "a login by key over loopback, and a file by scp", script: sshKey + `
		runuser -u ann -- /usr/sbin/sshd -f /dev/null -p 2222 -h /srv/ann/.ssh/host -o PidFile=none -o AuthorizedKeysFile=/srv/ann/.ssh/id.pub -o 'Subsystem=sftp internal-sftp' &&
		runuser -u ann -- ssh $SSH -p 2222 127.0.0.1 id -un | grep -q '^ann$' &&
		runuser -u ann -- scp -q $SSH -P 2222 127.0.0.1:/etc/os-release /srv/ann/copy && cmp /etc/os-release /srv/ann/copy && echo ok`},
	{
		name: "sshd as root", does: "a login by key over loopback",
		not: "it changes its root directory before it answers, and `chroot` is refused: start it as the user who logs in", script: sshKey + `
		mkdir -p /run/sshd && /usr/sbin/sshd -f /dev/null -p 2222 -h /srv/ann/.ssh/host -o AuthorizedKeysFile=/srv/ann/.ssh/id.pub &&
		! runuser -u ann -- ssh $SSH -p 2222 127.0.0.1 true 2>/dev/null && echo ok`,
	},
	{name: "PostgreSQL", does: "initdb, a server, psql as the user postgres", script: `
		pg_createcluster 15 test >/dev/null 2>&1; B=/usr/lib/postgresql/15/bin; rm -rf /tmp/pg; runuser -u postgres -- $B/initdb -D /tmp/pg >/dev/null 2>&1 &&
		runuser -u postgres -- $B/pg_ctl -D /tmp/pg -o '-p 5499' -w -l /tmp/pg.log start >/dev/null &&
		test "$(runuser -u postgres -- psql -p 5499 -Atc 'create table t (a int); insert into t select generate_series(1, 1000); select sum(a) from t' | tail -1)" = 500500 &&
		runuser -u postgres -- $B/pg_ctl -D /tmp/pg -w -m fast stop >/dev/null && echo ok`},
	// It asks for io_uring and then for io_setup, and says what it found instead.
	{name: "MariaDB", does: "a server without asynchronous I/O, InnoDB, a client", script: `
		mkdir /tmp/maria && chown mysql /tmp/maria && mariadb-install-db --user=mysql --datadir=/tmp/maria >/tmp/install.log 2>&1 &&
		{ mariadbd --no-defaults --user=mysql --datadir=/tmp/maria --socket=/tmp/maria.sock --skip-networking >/tmp/maria.log 2>&1 & } &&
		for i in $(seq 300); do mariadb-admin -S /tmp/maria.sock ping >/dev/null 2>&1 && break; sleep 0.2; done &&
		test "$(mariadb -S /tmp/maria.sock -N test -e 'create table t (a int) engine=innodb; insert into t select seq from seq_1_to_1000; select sum(a) from t')" = 500500 &&
		mariadb-admin -S /tmp/maria.sock shutdown && wait && grep -q 'falling back to libaio' /tmp/maria.log &&
		grep -q 'falling back to innodb_use_native_aio=OFF' /tmp/maria.log && echo ok`},
	{name: "Redis", does: "a server that is written to and saves", script: `
		redis-server --port 6399 --daemonize yes --dir /tmp >/dev/null && sleep 1 && redis-cli -p 6399 set k v >/dev/null && redis-cli -p 6399 save >/dev/null &&
		test "$(redis-cli -p 6399 get k)" = v && redis-cli -p 6399 shutdown && echo ok`},
	{name: "nginx", does: "workers as www-data serve a page that only they may read", script: `
		echo page >/var/www/html/index.html && chown www-data /var/www/html/index.html && chmod 400 /var/www/html/index.html &&
		nginx && test "$(curl -sS http://127.0.0.1/)" = page && nginx -s quit 2>/dev/null && echo ok`},
	{name: "Node.js", does: "a server, a child process, worker threads, network interfaces", script: `
		node -e 'const h=require("http"),os=require("os"),w=require("worker_threads"),c=require("child_process");
			os.networkInterfaces(); c.execSync("true");
			const s=h.createServer((q,r)=>r.end("hi")).listen(0,()=>h.get({port:s.address().port},r=>{r.resume();
				new w.Worker("require(\"worker_threads\").parentPort.postMessage(1)",{eval:true}).on("message",()=>{console.log("ok");process.exit(0)})}))'`},
	{name: "Java", does: "keytool makes a key pair, and the JIT compiles", script: `
		keytool -J-Xmx128m -J-XX:+PrintCompilation -genkeypair -keyalg RSA -keysize 3072 -dname cn=x -keystore /tmp/store -storepass secret >/tmp/out 2>&1 &&
		grep -q 'java.math.BigInteger' /tmp/out && test -s /tmp/store && echo ok`},
	{name: "LuaJIT", does: "code is compiled and run", script: `
		luajit -e 'assert(jit.status()); local s=0; for i=1,1e7 do s=s+i end; assert(s==50000005000000); print("ok")'`},
	{name: "gdb", does: "a program is run to a breakpoint, and another one is attached to", mode: "mvp", script: `
		gdb -q -batch -ex 'set auto-load off' -ex 'break exit' -ex run -ex bt --args /bin/true 2>&1 | grep -q 'Breakpoint 1, ' &&
		{ sleep 30 & } && gdb -q -batch -p $! -ex 'info threads' 2>&1 | grep -q Thread && kill $! && echo ok`},
	{name: "strace", does: "a program and its children are traced", mode: "mvp", script: `
		strace -f -o /tmp/trace sh -c 'ls / >/dev/null; true' && grep -q 'execve("/bin/ls"\|execve("/usr/bin/ls"' /tmp/trace && echo ok`},
	{name: "gdb and strace with `strict`", does: "a program is traced", not: "`ptrace` is refused; `security.seccomp: mvp` allows it", script: `
		! strace true 2>/tmp/err; grep -qi 'not permitted' /tmp/err && echo ok`},
	{name: "docker", does: "the command line without an engine says what is missing", script: `
		docker version 2>&1 | grep -qi 'cannot connect to the docker daemon' && echo ok`},
	{name: "dockerd, containerd, runc, unshare", does: "containers inside", not: "no namespaces and no mounts: images are built outside", script: `
		! unshare -r true 2>/tmp/err; grep -q 'not permitted' /tmp/err && ! unshare -m true 2>/dev/null && echo ok`},
	{name: "systemd-tmpfiles", does: "directories are made and cleaned", script: `
		mkdir -p /etc/tmpfiles.d && printf 'd /run/thing 0750 www-data www-data -\nf /run/thing/file 0644 - - - text\n' >/etc/tmpfiles.d/thing.conf &&
		systemd-tmpfiles --create /etc/tmpfiles.d/thing.conf && test "$(stat -c %U:%a /run/thing)" = www-data:750 && grep -q text /run/thing/file && echo ok`},
	{name: "systemd", does: "services", not: "there is no systemd in a sandbox, whose PID 1 is the runner: start programs themselves", script: `
		! systemctl status 2>/dev/null && echo ok`},
	{name: "ip, ss", does: "addresses and sockets are shown", script: `
		ip -br addr | grep -q '^lo' && ip route >/dev/null && ss -ltn >/dev/null && echo ok`},
	{name: "ping", does: "the loopback interface answers", not: "raw sockets need CAP_NET_RAW", script: `
		! ping -c 1 127.0.0.1 >/dev/null 2>&1 && echo ok`},
	{name: "mount", does: "file systems are mounted", not: "no capability for it, and the call is refused", script: `
		! mount -t tmpfs none /mnt 2>/dev/null && echo ok`},
	{name: "cargo", does: "a package is made, built, tested and run", script: `
		cd /workspace && export HOME=/tmp/cargo-home && cargo --quiet new hello && cd hello && test "$(cargo run --quiet)" = 'Hello, world!' &&
		cargo test --quiet >/dev/null && cargo --quiet install --path . --root /tmp/cargo-out && /tmp/cargo-out/bin/hello >/dev/null && echo ok`},
	{name: "go", does: "a module is made, built, tested and run", script: `
		mkdir /workspace/hi && cd /workspace/hi && go mod init example.com/hi 2>/dev/null &&
		printf 'package main\n\nfunc main() { println("hi") }\n' >main.go && printf 'package main\n\nimport "testing"\n\nfunc TestHi(t *testing.T) {}\n' >main_test.go &&
		test "$(go run . 2>&1)" = hi && go test . >/dev/null && go build && ./hi 2>/dev/null && echo ok`},
	{name: "gem", does: "a gem is built, installed and run", script: `
		mkdir -p /workspace/gem/bin && cd /workspace/gem && printf '#!/usr/bin/env ruby\nputs "hi"\n' >bin/skhi && chmod 755 bin/skhi &&
		printf 'Gem::Specification.new { |s| s.name = "skhi"; s.version = "1.0"; s.summary = "hi"; s.authors = ["a"]; s.files = ["bin/skhi"]; s.executables = ["skhi"] }\n' >skhi.gemspec &&
		gem build --silent skhi.gemspec 2>/dev/null && gem install --silent --local ./skhi-1.0.gem && test "$(skhi)" = hi && echo ok`},
	{name: "git", does: "a repository with commits and a clone", script: `
		rm -rf /tmp/g /tmp/g2; git init -q /tmp/g && cd /tmp/g && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git clone -q /tmp/g /tmp/g2 && cd / && echo ok`},
}
