package attack

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/sdk/go"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// C04: a session that was ready before its client came has nothing of a former
// or sibling one: no files, variables, history, processes, ports or name, and a
// machine id and random numbers of its own.
func TestC04_ReadySandboxes(t *testing.T) {
	t.Parallel()
	b := attack(t) // for the guard
	d := blackbox.Start(t, blackbox.Options{
		Program: os.Getenv(programVar), Env: []string{weakenVar + "=" + os.Getenv(weakenVar)}, Images: filepath.Join(b.daemon.Data, "images"),
		Config: configuration + "pool: {enabled: true, images: {base: 3}, memory_reserve_mb: 0}\n",
	})
	b.own(d)
	defer func() { // what is ready goes with the next start
		d.Stop()
		d.SetEnv("SANDKASTEN_POOL__ENABLED=false", weakenVar+"="+os.Getenv(weakenVar))
		d.Start()
	}()
	client := d.Client("")
	ready := func() sandkasten.PoolStatus {
		for deadline := time.Now().Add(paced(30 * time.Second)); ; time.Sleep(50 * time.Millisecond) {
			status, err := client.PoolStatus(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if status.Ready >= 3 {
				return status
			}
			if time.Now().After(deadline) {
				t.Fatalf("the pool is not ready: %+v", status)
			}
		}
	}
	const secret = "secret-of-a-former-session"
	var random []string
	for round := range 3 {
		ready()
		s, err := client.CreateSession(t.Context(), &sandkasten.CreateOptions{Env: map[string]string{"SECRET": secret}, Hostname: secret})
		if err != nil {
			t.Fatal(err)
		}
		defer destroy(t, s)
		other, err := client.CreateSession(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer destroy(t, other)
		leave := `echo ` + secret + ` | tee /workspace/f /tmp/f /root/f /etc/f /var/tmp/f /dev/shm/f >/dev/null; history -s ` + secret + `; (sleep 991 &); python3 -c '
import socket, time
s = socket.socket(); s.bind(("127.0.0.1", 4003)); s.listen(); time.sleep(60)' >/dev/null 2>&1 &`
		if _, err := s.Exec(t.Context(), leave, nil); err != nil {
			t.Fatal(err)
		}
		r, err := other.Exec(t.Context(), `( env; set; history; hostname; cat /etc/host*; cat /proc/*/environ /proc/*/cmdline /root/.*history; ps -eo args=
			ls -A /workspace /tmp /root /var/tmp /dev/shm; grep -rls former-session /etc /tmp /root /var /workspace /dev/shm /run; ss -ltn 2>/dev/null; tail -n +2 /proc/net/tcp ) 2>/dev/null`, nil)
		if err != nil || strings.Contains(r.Output, secret) || strings.Contains(r.Output, "991") || strings.Contains(r.Output, ":0FA3 ") {
			t.Errorf("round %d: a sibling shows in %q, %v", round, r.Output, err)
		}
		for _, session := range []*sandkasten.Session{s, other} {
			r, err := session.Exec(t.Context(), `head -c 16 /dev/urandom | od -An -tx1; echo $RANDOM$RANDOM$RANDOM; python3 -c 'import random, uuid; print(random.random(), uuid.uuid4())'; cat /etc/machine-id`, nil)
			if err != nil || strings.Count(r.Output, "\n") != 4 {
				t.Fatalf("%q, %v", r.Output, err)
			}
			random = append(random, strings.Split(strings.TrimSpace(r.Output), "\n")...)
		}
		destroy(t, s)
		destroy(t, other)
	}
	slices.Sort(random)
	if all := len(random); len(slices.Compact(random)) != all {
		t.Errorf("not all are different: %q", random)
	}
	hits := int64(0)
	for _, image := range ready().Images {
		hits += image.Hits
	}
	if hits == 0 {
		t.Error("no session was ready before: nothing was tried")
	}
}
