package orchestrator

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/test/blackbox"
)

const figuresConfig = "orchestrator: {enabled: true, reaper_interval_seconds: 60}\n"

// BenchmarkReadyCreate compares a create with the id of a ready session with GET of
// it, in turns: the first is to be at most 1 ms slower.
func BenchmarkReadyCreate(b *testing.B) {
	d := blackbox.Start(b, blackbox.Options{Config: figuresConfig})
	c := clientOf(b, d, d.Key)
	c.must(nil, http.MethodPost, sessionsPath, `{"id":"`+someID+`"}`, http.StatusCreated)
	var creates, gets []time.Duration
	timed := func(into *[]time.Duration, method, path, body string) {
		began := time.Now()
		c.must(nil, method, path, body, http.StatusOK)
		*into = append(*into, time.Since(began))
	}
	for b.Loop() {
		timed(&creates, http.MethodPost, sessionsPath, `{"id":"`+someID+`"}`)
		timed(&gets, http.MethodGet, one, "")
	}
	b.ReportMetric(median(creates).Seconds()*1e3, "create-ms")
	b.ReportMetric(median(gets).Seconds()*1e3, "get-ms")
	b.ReportMetric((median(creates)-median(gets)).Seconds()*1e3, "more-ms")
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// BenchmarkHeartbeats sends heartbeats at 1,000 a second, of 20 sessions, and counts
// the transactions of the daemon meanwhile: one a second is to do.
func BenchmarkHeartbeats(b *testing.B) {
	const sessions, rate, seconds = 20, 1000, 5
	d := blackbox.Start(b, blackbox.Options{Config: figuresConfig})
	c := clientOf(b, d, d.Key)
	var paths []string
	for range sessions {
		var x session
		c.must(&x, http.MethodPost, sessionsPath, "{}", http.StatusCreated)
		paths = append(paths, sessionsPath+x.ID+"/heartbeat/")
	}
	time.Sleep(2 * time.Second) // until what the creates did is written
	for b.Loop() {
		ctx, stop := context.WithTimeout(b.Context(), seconds*time.Second)
		var sent atomic.Int64
		var all sync.WaitGroup
		began := time.Now()
		for worker := range 16 {
			all.Go(func() {
				for n := worker; ctx.Err() == nil; n += 16 {
					time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second / rate)))
					if ctx.Err() != nil {
						return
					}
					if c.must(nil, http.MethodPost, paths[n%sessions], "", http.StatusOK) == http.StatusOK {
						sent.Add(1)
					}
				}
			})
		}
		writes := countCommits(ctx, b, filepath.Join(d.Data, "sandkasten.db"))
		all.Wait()
		stop()
		b.ReportMetric(float64(sent.Load())/time.Since(began).Seconds(), "beats/s")
		b.ReportMetric(float64(writes)/seconds, "writes/s")
	}
}

// countCommits counts the moments at which another connection has committed since
// the last look, 2 ms apart, until ctx is done.
func countCommits(ctx context.Context, b *testing.B, file string) (commits int) {
	b.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)")
	if err != nil {
		b.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	before, now := int64(-1), int64(0)
	for ; ctx.Err() == nil; time.Sleep(2 * time.Millisecond) {
		if err := db.QueryRowContext(context.WithoutCancel(ctx), "PRAGMA data_version").Scan(&now); err != nil {
			b.Fatal(err)
		}
		if now != before && before >= 0 {
			commits++
		}
		before = now
	}
	if err := db.Close(); err != nil {
		b.Error(err)
	}
	return commits
}

// BenchmarkRestore compares the create of a session that has 100 MB of files saved
// with tar of the same files, gzipped, on the same file system, in turns. It is to
// take less than twice as long.
func BenchmarkRestore(b *testing.B) {
	d := blackbox.Start(b, blackbox.Options{Config: figuresConfig})
	c := clientOf(b, d, d.Key)
	c.must(nil, http.MethodPost, sessionsPath, `{"id":"`+someID+`"}`, http.StatusCreated)
	const write = "for i in $(seq 100); do head -c 786432 /dev/urandom | base64 > f$i; done"
	c.must(nil, http.MethodPost, one+"shell/", fmt.Sprintf(`{"command":%q}`, write), http.StatusOK)
	archive := archiveOf(b, c, d)
	var restores, plain []time.Duration
	for b.Loop() {
		c.must(nil, http.MethodPost, one+"stop/", "", http.StatusNoContent)
		began := time.Now()
		c.must(nil, http.MethodPost, sessionsPath, `{"id":"`+someID+`"}`, http.StatusCreated)
		restores = append(restores, time.Since(began))
		plain = append(plain, untar(b, archive, filepath.Join(d.Data, "untarred")))
	}
	b.ReportMetric(median(restores).Seconds()*1e3, "restore-ms")
	b.ReportMetric(median(plain).Seconds()*1e3, "untar-ms")
	b.ReportMetric(median(restores).Seconds()/median(plain).Seconds(), "times-untar")
}

// archiveOf is a tar.gz of the session's files, as a snapshot has them.
func archiveOf(b *testing.B, c client, d *blackbox.Daemon) string {
	b.Helper()
	var x session
	c.must(&x, http.MethodGet, one, "", http.StatusOK)
	_, archive, err := c.call(b.Context(), http.MethodGet, "/v1/sessions/"+path.Base(x.Ref)+"/fs/archive?format=tar.gz", "")
	if err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(d.Data, "files.tar.gz")
	if err := os.WriteFile(file, archive, 0o600); err != nil {
		b.Fatal(err)
	}
	return file
}

func untar(b *testing.B, archive, into string) time.Duration {
	b.Helper()
	if err := os.Mkdir(into, 0o700); err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	if text, err := exec.CommandContext(b.Context(), "tar", "-xzf", archive, "-C", into).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, text)
	}
	took := time.Since(began)
	if err := os.RemoveAll(into); err != nil {
		b.Fatal(err)
	}
	return took
}
