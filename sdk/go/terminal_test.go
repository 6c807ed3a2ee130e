package sandkasten

import (
	"errors"
	"io"
	"testing"
)

const started = `{"started": {"terminal_id": "t1", "seq": 40}}`

func TestTerminal(t *testing.T) {
	said := make(chan string, 2)
	c, target := serve(t, func(p *peer) {
		p.send(text, started)
		for range 2 {
			_, payload := p.receive()
			said <- payload
		}
		p.send(binmsg, "hello")
		p.send(text, `{"dropped": {"bytes": 100}}`)
		p.send(text, `{"news": "that nobody knows yet"}`)
		p.send(binmsg, "again")
		p.send(text, `{"exit": {"exit_code": 7, "cause": "exited"}}`)
		p.wait()
	})
	term, err := c.Session("s1").OpenTerminal(t.Context(), &TerminalOptions{Rows: 24, Cols: 80, Term: "xterm", Command: []string{"vi", "a b"}})
	if err != nil {
		t.Fatal(err)
	}
	defer term.Close()
	if got := target(); got != "/v1/sessions/s1/terminal?cols=80&command=vi&command=a+b&rows=24&term=xterm" {
		t.Errorf("the target is %s", got)
	}
	if _, err := term.Write([]byte("keys")); err != nil {
		t.Fatal(err)
	}
	if err := term.Resize(50, 100); err != nil {
		t.Fatal(err)
	}
	if keys, size := <-said, <-said; keys != "keys" || size != `{"resize":{"rows":50,"cols":100}}` {
		t.Errorf("the terminal got %q and %s", keys, size)
	}
	if _, err := io.ReadFull(term, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if term.ID() != "t1" || term.Seq() != 43 {
		t.Errorf("terminal %s at %d", term.ID(), term.Seq())
	}
	if _, ended := term.ExitCode(); ended {
		t.Error("it says that the program has ended")
	}
	rest, err := io.ReadAll(term)
	if code, ended := term.ExitCode(); string(rest) != "loagain" || err != nil || code != 7 || !ended || term.Seq() != 150 {
		t.Errorf("read %q up to %d, %v; exit code %d, %v", rest, term.Seq(), err, code, ended)
	}
}

func TestTerminalThatIsAttachedAgain(t *testing.T) {
	for since, want := range map[int64]string{
		0:  "/v1/sessions/s1/terminal?terminal_id=t1",
		-1: "/v1/sessions/s1/terminal?since_seq=0&terminal_id=t1",
		43: "/v1/sessions/s1/terminal?since_seq=43&terminal_id=t1",
	} {
		c, target := serve(t, func(p *peer) { p.send(text, started) })
		term, err := c.Session("s1").AttachTerminal(t.Context(), "t1", &AttachTerminalOptions{SinceSeq: since})
		if err != nil {
			t.Fatal(err)
		}
		if got := target(); got != want {
			t.Errorf("the target is %s, want %s", got, want)
		}
		_, err = io.ReadAll(term)
		var broken *ConnectionError
		if !errors.As(err, &broken) {
			t.Errorf("the error is %v", err)
		}
	}
}

func TestTerminalsFail(t *testing.T) {
	refusal := `{"code": "conflict", "error": "the session was destroyed"}`
	for name, first := range map[string]string{"an error": refusal, "no id": `{"exit": {}}`, "no JSON": "hello"} {
		c, _ := serve(t, func(p *peer) { p.send(text, first); p.wait() })
		if _, err := c.Session("s1").OpenTerminal(t.Context(), nil); err == nil || name == "an error" && !errors.Is(err, ErrConflict) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	c, _ := serve(t, func(p *peer) { p.send(text, started); p.send(text, refusal); p.wait() })
	term, err := c.Session("s1").OpenTerminal(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(term); !errors.Is(err, ErrConflict) {
		t.Errorf("the error is %v", err)
	}
}
