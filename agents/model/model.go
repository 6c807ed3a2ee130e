// Package model asks language models what an agent does next: those with an API as
// OpenAI's or Anthropic's, and scripts, which need none.
package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/agents/frontmatter"
	"github.com/sandkasten/sandkasten/agents/toolset"
)

// Roles of messages.
const (
	System    = "system"
	User      = "user"
	Assistant = "assistant"
	ToolRole  = "tool" // what a tool has answered
)

// Message is one message of a conversation.
type Message struct {
	Role   string `json:"role"`
	Text   string `json:"text,omitempty"`
	Calls  []Call `json:"calls,omitempty"`   // of the assistant
	CallID string `json:"call_id,omitempty"` // which a tool has answered
	Error  bool   `json:"error,omitempty"`   // the tool could not do it

	Images []Image `json:"images,omitempty"` // that the tool made
}

// Image is a picture for models that see.
type Image struct {
	MIME string `json:"mime"`
	Data []byte `json:"data"`
}

// Errors of models that have answered, but not with a last word of an agent.
var (
	ErrCut     = errors.New("the model's answer was cut at its limit of tokens; raise config.maxOutputTokens in the prompt file")
	ErrRefused = errors.New("the model refuses")
)

// whole is an error if m is no whole answer. A cut one that calls tools is: a tool says
// what is wrong with cut arguments, and the model goes on.
func (m Message) whole(cut bool, refusal string) error {
	switch {
	case refusal != "":
		return fmt.Errorf("%w: %s", ErrRefused, refusal)
	case cut && len(m.Calls) == 0:
		return ErrCut
	}
	return nil
}

// cutArguments stand for those of a call that was cut. They are no object, so the tool
// refuses the call.
var cutArguments = json.RawMessage(`"cut at the limit of tokens"`)

// Call is a call of a tool.
type Call struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

// Request is a conversation whose next message is wanted.
type Request struct {
	Agent    string // who asks, for scripts
	Visit    int    // how often it has been begun in this run, from 1
	Config   frontmatter.Config
	Messages []Message
	Tools    []toolset.Tool
}

// Model says how a conversation goes on. It may be used concurrently.
type Model interface {
	Generate(ctx context.Context, r Request) (Message, error)
}

// New returns the model of a name: openai/NAME, anthropic/NAME or script:FILE. The
// variables OPENAI_BASE_URL, OPENAI_API_KEY, ANTHROPIC_BASE_URL and
// ANTHROPIC_API_KEY say where it is.
func New(name string) (Model, error) {
	if file, ok := strings.CutPrefix(name, "script:"); ok {
		return LoadScript(file)
	}
	provider, model, found := strings.Cut(name, "/")
	if !found || model == "" {
		return nil, fmt.Errorf("the model %q must be openai/NAME, anthropic/NAME or script:FILE", name)
	}
	switch provider {
	case "openai":
		return &openAI{model, endpoint{base: variable("OPENAI_BASE_URL", ownOpenAI), header: func(h http.Header) {
			if key := os.Getenv("OPENAI_API_KEY"); key != "" {
				h.Set("Authorization", "Bearer "+key)
			}
		}}}, nil
	case "anthropic":
		return &anthropic{model, endpoint{base: variable("ANTHROPIC_BASE_URL", "https://api.anthropic.com"), header: func(h http.Header) {
			h.Set("x-api-key", os.Getenv("ANTHROPIC_API_KEY"))
			h.Set("anthropic-version", "2023-06-01")
		}}}, nil
	}
	return nil, fmt.Errorf("the provider %q of the model %q is not known; use openai or anthropic, with its base URL for a compatible one", provider, name)
}

func variable(name, fallback string) string {
	if value := os.Getenv(name); value != "" {
		return strings.TrimRight(value, "/")
	}
	return fallback
}

const (
	attempts     = 5
	firstPause   = time.Second
	longestPause = time.Minute
	maxAnswer    = 32 << 20
)

// client is for calls that take as long as a model thinks. It follows no redirect: the key of
// some APIs would go with it to whoever that names.
var client = &http.Client{
	Timeout:       10 * time.Minute,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// endpoint is a model's API.
type endpoint struct {
	base   string
	header func(http.Header)
}

// post sends a request until it gets an answer that counts. Models are busy often.
func (e endpoint) post(ctx context.Context, path string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	pause := firstPause
	for attempt := 1; ; attempt++ {
		again, after, err := e.try(ctx, path, text, answer)
		if err == nil || !again || attempt == attempts || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(min(max(pause, after), longestPause)):
		}
		pause *= 2
	}
}

func (e endpoint) try(ctx context.Context, path string, body []byte, answer any) (again bool, after time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.base+path, bytes.NewReader(body))
	if err != nil {
		return false, 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	e.header(req.Header)
	res, err := client.Do(req)
	if err != nil {
		return true, 0, fmt.Errorf("ask the model: %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return true, 0, fmt.Errorf("read the model's answer: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		again = res.StatusCode == http.StatusTooManyRequests || res.StatusCode >= 500
		return again, retryAfter(res.Header.Get("Retry-After"), time.Now()), fmt.Errorf("the model's API answers %s: %s", res.Status, text[:min(len(text), 500)])
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return false, 0, fmt.Errorf("the model's answer is not understood: %w", err)
	}
	return false, 0, nil
}

// retryAfter is how long a server asks to be left alone, in seconds or until a date.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(header); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if until, err := http.ParseTime(header); err == nil {
		return until.Sub(now)
	}
	return 0
}

var errEmpty = errors.New("the model's answer has no message")
