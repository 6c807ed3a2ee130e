package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/test/bench/direct"
	"github.com/sandkasten/sandkasten/test/bench/report"
)

// What is measured inside of living sandboxes beside the round trip of `true`:
// how soon output arrives, how much of it and of files a second moves, and how
// many commands a second many busy sessions run.

const (
	outputBytes  = 256 << 20
	fileBytes    = 1 << 30
	busySessions = 64
	stampCount   = 100
)

// streamer is a sandbox whose commands' output can be read as it appears.
type streamer interface {
	// stream runs a shell command. The caller reads its output to the end,
	// which is an error unless the exit code is 0, and closes it.
	stream(ctx context.Context, command string) (io.ReadCloser, error)
}

// stream runs a command in a sandbox of a process subject.
func (s *processSandbox) stream(ctx context.Context, command string) (io.ReadCloser, error) {
	if s.subject.execIn == nil {
		return nil, errors.ErrUnsupported
	}
	args := s.subject.execIn(s.id)
	args = append(args[:len(args)-1:len(args)-1], "bash", "-c", command) // instead of true
	return startReading(ctx, s.subject.start, args)
}

func (s *hostShell) stream(ctx context.Context, command string) (io.ReadCloser, error) {
	return startReading(ctx, startHere, []string{"bash", "-c", command})
}

// reading is the output of a program that ends with it.
type reading struct {
	io.ReadCloser
	cmd *exec.Cmd
}

func startReading(ctx context.Context, start starter, args []string) (io.ReadCloser, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := start(cmd); err != nil {
		return nil, err
	}
	return &reading{stdout, cmd}, nil
}

func (r *reading) Close() error { return r.cmd.Wait() }

// stream runs a command through POST exec/stream.
func (s *session) stream(ctx context.Context, command string) (io.ReadCloser, error) {
	body, err := json.Marshal(object{"cmd": command})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.daemon.base+"/v1/sessions/"+s.id+"/exec/stream", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.daemon.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.daemon.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(resp.Body)
		return nil, errors.Join(fmt.Errorf("exec/stream: %s: %s", resp.Status, text), err, resp.Body.Close())
	}
	return &events{body: resp.Body, lines: bufio.NewReaderSize(resp.Body, longestLine)}, nil
}

// longestLine is more than an event of the largest chunk takes, 256 KiB of
// which each byte is escaped as six.
const longestLine = 2 << 20

// events reads the output out of server-sent events.
type events struct {
	body  io.ReadCloser
	lines *bufio.Reader
	event string
	chunk []byte // the last one
	rest  []byte // of it
}

func (e *events) Read(p []byte) (int, error) {
	for len(e.rest) == 0 {
		if err := e.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// next reads one line. The event done is the end.
func (e *events) next() error {
	line, err := e.lines.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("the stream broke: %w", err)
	}
	if name, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
		e.event = string(bytes.TrimSpace(name))
	}
	data, ok := bytes.CutPrefix(line, []byte("data: "))
	if !ok {
		return nil
	}
	if e.event == "chunk" {
		e.chunk, err = chunkOf(data, e.chunk[:0])
		e.rest = e.chunk
		return err
	}
	var d struct {
		ExitCode int `json:"exit_code"`
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return err
	}
	switch e.event {
	case "error":
		return fmt.Errorf("exec/stream: %s", data)
	case "done":
		if d.ExitCode != 0 {
			return fmt.Errorf("exec/stream: exit code %d", d.ExitCode)
		}
		return io.EOF
	}
	return nil
}

// chunkOf appends the text of the event chunk to buf. The package encoding/json
// takes more time to read an event than the daemon to make it, which would be
// measured as the daemon's: the usual event is read here, all others there.
func chunkOf(data, buf []byte) ([]byte, error) {
	usual := bytes.HasPrefix(data, []byte(chunkBegins))
	for i := len(chunkBegins); usual && i < len(data); i++ {
		c := data[i]
		switch {
		case c == '"':
			return buf, nil
		case c == '\\' && i+1 < len(data):
			i++
			c = letters[data[i]]
			usual = c != 0
		}
		buf = append(buf, c)
	}
	var d struct {
		Chunk string `json:"chunk"`
	}
	err := json.Unmarshal(data, &d)
	return []byte(d.Chunk), err
}

// chunkBegins is how an event chunk begins.
const chunkBegins = `{"chunk":"`

// letters is what the letter after a backslash stands for.
var letters = [256]byte{'n': '\n', 't': '\t', 'r': '\r', 'b': '\b', 'f': '\f', '"': '"', '\\': '\\', '/': '/'}

func (e *events) Close() error { return e.body.Close() }

// program is `true` without a shell: a process of a session.
type program struct{ *session }

func (p program) exec(ctx context.Context) error {
	var result struct {
		ExitCode *int   `json:"exit_code"`
		Cause    string `json:"cause"`
	}
	err := p.daemon.call(ctx, http.MethodPost, "/v1/sessions/"+p.id+"/processes", object{"cmd": []string{"true"}}, &result)
	if err == nil && (result.ExitCode == nil || *result.ExitCode != 0) {
		err = fmt.Errorf("true: exit code %v, %s", result.ExitCode, result.Cause)
	}
	return err
}

// hostProgram is `true` on the host, forked and executed by this process.
type hostProgram struct{}

func (hostProgram) exec(ctx context.Context) error { return exec.CommandContext(ctx, "true").Run() }

func (hostProgram) destroy(context.Context) error { return nil }

// withBoxes makes one sandbox of everyone whose output can be read, by the
// name of its exec, and destroys them after f.
func (s *suite) withBoxes(ctx context.Context, f func(map[string]streamer) error) (err error) {
	var boxes []sandbox
	defer func() { err = errors.Join(err, destroyAll(ctx, boxes, 1)) }()
	streamers := map[string]streamer{}
	for _, c := range append([]contender{{subject: hostBash{}}}, s.contenders...) {
		box, err := c.create(ctx)
		if err != nil {
			return err
		}
		boxes = append(boxes, box)
		st, ok := box.(streamer)
		if !ok {
			continue
		}
		switch err := consume(ctx, st, "true", func([]byte, time.Time) {}); {
		case errors.Is(err, errors.ErrUnsupported):
		case err != nil:
			return fmt.Errorf("%s: %w", c.name(), err)
		default:
			streamers[execName(c.name())] = st
		}
	}
	return f(streamers)
}

// consume reads all output of a command.
func consume(ctx context.Context, st streamer, command string, seen func(p []byte, at time.Time)) error {
	out, err := st.stream(ctx, command)
	if err != nil {
		return err
	}
	buf := make([]byte, 256<<10)
	for {
		n, err := out.Read(buf)
		if n > 0 {
			seen(buf[:n], time.Now())
		}
		if errors.Is(err, io.EOF) {
			return out.Close()
		}
		if err != nil {
			return errors.Join(err, out.Close())
		}
	}
}

// firstByte measures from the moment at which a command has taken the time
// until what it then printed has been read: the command prints that time.
func (s *suite) firstByte(ctx context.Context) error {
	return s.withBoxes(ctx, func(boxes map[string]streamer) error {
		var contestants []contestant
		for name, st := range boxes {
			contestants = append(contestants, contestant{name, 1, func(ctx context.Context, record func(string, time.Duration)) error {
				command := fmt.Sprintf(`for i in {1..%d}; do printf '%%s\n' "$EPOCHREALTIME"; sleep 0.005; done`, stampCount)
				var stamps stampReader
				return errors.Join(consume(ctx, st, command, func(p []byte, at time.Time) {
					stamps.read(p, at, func(took time.Duration) { record("byte", took) })
				}), stamps.err)
			}})
		}
		measured, err := interleave(ctx, s.rng, contestants, 1, s.rounds(5))
		s.results.FirstByte = measured["byte"]
		return err
	})
}

// stampReader finds lines that are times, in seconds with a fraction.
type stampReader struct {
	line []byte
	err  error
}

func (r *stampReader) read(p []byte, at time.Time, record func(time.Duration)) {
	r.line = append(r.line, p...)
	for {
		line, rest, found := bytes.Cut(r.line, []byte("\n"))
		if !found {
			return
		}
		r.line = rest
		micros, err := strconv.ParseInt(strings.Replace(string(line), ".", "", 1), 10, 64)
		if err != nil {
			r.err = errors.Join(r.err, err)
			continue
		}
		record(at.Sub(time.UnixMicro(micros)))
	}
}

// output measures how much of a command's output arrives in a second.
func (s *suite) output(ctx context.Context) error {
	return s.withBoxes(ctx, func(boxes map[string]streamer) error {
		size := int64(float64(outputBytes) * s.scale)
		var contestants []contestant
		for name, st := range boxes {
			contestants = append(contestants, contestant{name, 1, func(ctx context.Context, record func(string, time.Duration)) error {
				begin, got := time.Now(), int64(0)
				err := consume(ctx, st, fmt.Sprintf("yes | head -c %d", size), func(p []byte, _ time.Time) { got += int64(len(p)) })
				if err == nil && got != size {
					err = fmt.Errorf("%d bytes arrived of %d", got, size)
				}
				record("all", time.Since(begin))
				return err
			}})
		}
		measured, err := interleave(ctx, s.rng, contestants, 1, 5)
		s.results.Output = rates(measured["all"], size)
		return err
	})
}

// rates turns the median time of a transfer into bytes per second.
func rates(times map[string]report.Summary, size int64) map[string]float64 {
	perSec := map[string]float64{}
	for name, s := range times {
		perSec[name] = float64(size) / s.P50.Seconds()
	}
	return perSec
}

// files moves a file into a session and out of it, beside cp in the same directory.
func (s *suite) files(ctx context.Context) (err error) {
	if s.daemon == nil {
		return nil
	}
	var made struct {
		ID string `json:"id"`
	}
	if err := s.daemon.call(ctx, http.MethodPost, "/v1/sessions", object{"image": imageName, "disk_mb": 6 << 10}, &made); err != nil {
		return err
	}
	box := &session{s.daemon, made.ID}
	defer func() { err = errors.Join(err, box.destroy(ctx)) }()
	size := int64(float64(fileBytes) * s.scale)
	source, err := sampleFile(s.daemon.dir, size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	timed := func(name string, f func(context.Context) error) contestant {
		return contestant{name, 1, func(ctx context.Context, record func(string, time.Duration)) error {
			if err := box.run(ctx, "rm -f copy up; sync", ""); err != nil {
				return err
			}
			begin := time.Now()
			err := f(ctx)
			record("all", time.Since(begin))
			return err
		}}
	}
	if err := box.put(ctx, "big", source, size); err != nil {
		return err
	}
	measured, err := interleave(ctx, s.rng, []contestant{
		timed(report.FilesCopy, func(ctx context.Context) error { return box.run(ctx, "cp big copy", "") }),
		timed(report.FilesUp, func(ctx context.Context) error { return box.put(ctx, "up", source, size) }),
		timed(report.FilesDown, func(ctx context.Context) error { return box.get(ctx, "big", size) }),
	}, 1, 5)
	s.results.Files = rates(measured["all"], size)
	return err
}

// put writes source, which has size bytes, to a file of the session. The client
// is given the file itself: like cp it has the bytes from the page cache, and
// spends nothing on making them.
func (s *session) put(ctx context.Context, path string, source *os.File, size int64) error {
	if _, err := source.Seek(0, io.SeekStart); err != nil {
		return err
	}
	url := s.daemon.base + "/v1/sessions/" + s.id + "/fs/raw?path=" + path
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, io.NopCloser(source))
	if err != nil {
		return err
	}
	req.ContentLength = size
	req.Header.Set("Authorization", "Bearer "+s.daemon.key)
	_, err = direct.Answer(s.daemon.http, req, nil)
	return err
}

// get reads a file of size bytes and drops it.
func (s *session) get(ctx context.Context, path string, size int64) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.daemon.base+"/v1/sessions/"+s.id+"/fs/read?raw=1&path="+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.daemon.key)
	resp, err := s.daemon.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	got, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, resp.Body, make([]byte, 1<<20))
	if err == nil && (resp.StatusCode != http.StatusOK || got != size) {
		err = fmt.Errorf("fs/read: %s, %d bytes of %d", resp.Status, got, size)
	}
	return err
}

// busy keeps many sessions busy with `true`, one client each.
func (s *suite) busy(ctx context.Context) (err error) {
	if s.daemon == nil {
		return nil
	}
	ours := &sandkastenSubject{s.daemon}
	boxes := make([]sandbox, busySessions)
	defer func() { err = errors.Join(err, destroyAll(ctx, boxes, report.TogetherWorkers)) }()
	for i := range boxes {
		if boxes[i], err = ours.create(ctx); err != nil {
			return err
		}
	}
	for _, clients := range []int{1, 4, 16, busySessions} {
		limit := budget{time: time.Duration(5 * s.scale * float64(time.Second))}
		idle := make(chan sandbox, clients)
		for _, box := range boxes[:clients] {
			idle <- box
		}
		done := closedLoop(ctx, clients, limit, func(ctx context.Context, _ int) (time.Time, error) {
			box := <-idle // at once: a box for each client
			err := box.exec(ctx)
			idle <- box
			return time.Now(), err
		})
		s.results.Busy = append(s.results.Busy, report.Load{Subject: ours.name(), What: "exec", Level: clients, N: done.Latency.N, Outcome: done})
	}
	return nil
}
