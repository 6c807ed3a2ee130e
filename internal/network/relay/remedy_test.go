package relay_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/sandkasten/sandkasten/internal/network"
	"github.com/sandkasten/sandkasten/internal/network/relay"
)

// The entry that a refusal tells opens what was refused, once it is in the list.
func TestEntriesOfRefusalsOpenThem(t *testing.T) {
	operator := network.Operator{AllowPrivate: true, Groups: map[string][]string{"company": {"10.20.0.0/16"}}}
	for about, c := range map[string]struct {
		allow []string
		try   func(w *world) error
		want  string
	}{
		"a name":                    {nil, resolves("good.test"), "good.test"},
		"a private address":         {[]string{"git.test"}, resolves("git.test"), "@company"},
		"another private address":   {[]string{"wiki.test"}, resolves("wiki.test"), "10.99.0.7"},
		"another host's name":       {[]string{"good.test"}, fetches("-H", "Host: evil.test", "http://198.51.100.1/"), "evil.test"},
		"HTTP without a name":       {[]string{"good.test"}, fetches("http://198.51.100.1/"), "198.51.100.1:80"},
		"TLS without a name":        {[]string{"good.test"}, fetches("https://198.51.100.1/"), "198.51.100.1:443"},
		"a port of an address":      {[]string{"good.test"}, echoes("198.51.100.7:5432"), "198.51.100.7:5432"},
		"a port of a private one":   {[]string{"good.test"}, echoes("10.99.0.7:22"), "10.99.0.7:22"},
		"a port of a known address": {[]string{"good.test"}, echoes("198.51.100.1:5432"), "good.test:5432"},
	} {
		t.Run(about, func(t *testing.T) {
			policy := network.Policy{Mode: network.Allow, Allow: c.allow}
			w := newWorld(t, policy, operator)
			secure, clear := site(t, "good.test")
			w.resolve("good.test", "198.51.100.1")
			w.resolve("evil.test", "198.51.100.1")
			w.resolve("git.test", "10.20.0.7")
			w.resolve("wiki.test", "10.99.0.7")
			w.at("198.51.100.1:443", secure)
			w.at("198.51.100.1:80", clear)
			for _, address := range []string{"198.51.100.1:5432", "198.51.100.7:5432", "10.99.0.7:22"} {
				w.at(address, echo(t))
			}
			if slices.Contains(c.allow, "good.test") {
				w.mustAsk("good.test", dns.TypeA)
			}
			if c.try(w) == nil {
				t.Fatal("it is not refused")
			}
			refused := w.await("the refusal", func(e relay.Event) bool { return !e.Allowed })
			if refused.Entry != c.want {
				t.Fatalf("%+v, want the entry %s", refused, c.want)
			}
			policy.Allow = append(policy.Allow, refused.Entry)
			rules, err := network.Compile(policy, operator)
			if err != nil {
				t.Fatal(err)
			}
			w.relay.SetRules(rules)
			if err := c.try(w); err != nil {
				t.Errorf("with %s: %v", refused.Entry, err)
			}
		})
	}
}

func resolves(name string) func(*world) error {
	return func(w *world) error {
		if reply := w.mustAsk(name, dns.TypeA); len(reply.Answer) == 0 {
			return errors.New("no answer")
		}
		return nil
	}
}

func fetches(args ...string) func(*world) error {
	return func(w *world) error {
		out, err := curl(w, append([]string{"-f"}, args...)...)
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
}

func echoes(address string) func(*world) error {
	return func(w *world) error {
		conn, err := w.connect(address)
		if err != nil {
			return err
		}
		if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
			return err
		}
		if _, err := io.WriteString(conn, "\x01hello\n"); err != nil {
			return err
		}
		back := make([]byte, 7)
		if _, err := io.ReadFull(conn, back); err != nil || !strings.Contains(string(back), "hello") {
			return fmt.Errorf("%q, %w", back, err)
		}
		return nil
	}
}
