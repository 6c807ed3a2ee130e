package tools

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sandkasten/sandkasten/sdk/go"
)

// Bounds of what one answer shows of results.
const (
	mostResults    = 20
	mostPictures   = 4
	pictureBytes   = 2 << 20 // of one picture; models take no larger ones
	mostTableRows  = 20
	mostTableBytes = 8 << 10
)

type codeAnswer struct {
	OK        bool         `json:"ok"`
	Cause     string       `json:"cause"`
	Results   []codeResult `json:"results,omitempty"`
	Stdout    string       `json:"stdout,omitempty"`
	Stderr    string       `json:"stderr,omitempty"`
	Error     string       `json:"error,omitempty"`
	Traceback string       `json:"traceback,omitempty"`
	Truncated bool         `json:"truncated,omitempty"`
	Cut       string       `json:"cut,omitempty"` // the results that are left out
	Hint      string       `json:"hint,omitempty"`

	pictures []Image
}

func (a codeAnswer) images() []Image { return a.pictures }

type codeResult struct {
	Text  string                `json:"text,omitempty"`
	Image int                   `json:"image,omitempty"` // the number of the picture that comes with the answer
	Table *sandkasten.CodeTable `json:"table,omitempty"`
	Chart *codeChart            `json:"chart,omitempty"`
	JSON  any                   `json:"json,omitempty"`
	Files []string              `json:"files,omitempty"` // in the sandbox, with what is too large
	Cut   string                `json:"cut,omitempty"`   // what of it is left out
}

// codeChart is what a model reads of a chart that it may also see: not its points.
type codeChart struct {
	Type   string   `json:"type"`
	Title  string   `json:"title,omitempty"`
	Series []string `json:"series,omitempty"`
}

func codeTool(ctx context.Context, c *call) (any, error) {
	session, err := c.session(ctx)
	if err != nil {
		return nil, err
	}
	var run sandkasten.CodeRun
	err = tell(ctx, "code", func() error {
		run, err = session.RunCode(ctx, c.text("code"), &sandkasten.RunCodeOptions{
			Language: orElse(c.text("language"), defaultRuntime), Timeout: c.seconds("timeout_seconds", c.set.opts.Timeout),
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return newCodeAnswer(run, c.set.opts.MaxBytes), nil
}

func newCodeAnswer(run sandkasten.CodeRun, most int) codeAnswer {
	a := codeAnswer{OK: run.Cause == "completed", Cause: run.Cause, Hint: codeHint(run)}
	var cutOut, cutErr bool
	a.Stdout, cutOut = shorten(run.Stdout, most, rest("print less", run.StdoutFile))
	a.Stderr, cutErr = shorten(run.Stderr, most, rest("print less", run.StderrFile))
	a.Truncated = cutOut || cutErr || run.DroppedResults > 0 || run.StdoutDroppedBytes > 0 || run.StderrDroppedBytes > 0
	if e := run.Error; e != nil {
		a.Error, _ = shorten(e.Name+": "+e.Value, most/4, "it is longer")
		a.Traceback, _ = shorten(e.Traceback, most/2, "inner calls are left out")
	}
	for _, result := range run.Results[:min(len(run.Results), mostResults)] {
		shown := a.newResult(result, most)
		a.Truncated = a.Truncated || shown.Cut != ""
		a.Results = append(a.Results, shown)
	}
	if left := len(run.Results) - len(a.Results) + run.DroppedResults; left > 0 {
		a.Truncated, a.Cut = true, fmt.Sprintf("%d further results", left)
	}
	return a
}

// rest says how to read what an answer has no room for.
func rest(otherwise, file string) string {
	if file == "" {
		return otherwise
	}
	return "all is in the file " + file
}

func codeHint(run sandkasten.CodeRun) string {
	switch {
	case run.Cause == "oom_killed":
		return "It needed more memory than the sandbox has, and all variables are gone. Work on less at once."
	case run.Cause == "timeout" && run.StateLost:
		return "It was ended at its timeout and all variables are gone. Do less in one call, or send a longer timeout_seconds."
	case run.Cause == "timeout":
		return "It was interrupted at its timeout; variables are kept. Do less in one call, or send a longer timeout_seconds."
	case run.StateLost:
		return "The kernel ended: all variables and imports are gone, files are kept. Run what is needed again."
	case run.NewKernel:
		return "It ran in a new kernel, without the variables and imports of before."
	case run.DiskFull:
		return "The sandbox's disk is full. Delete files that are not needed."
	}
	return ""
}

// newResult is a result as models read it: its most telling forms.
func (a *codeAnswer) newResult(r sandkasten.CodeResult, most int) (shown codeResult) {
	var cut []string
	defer func() { shown.Cut = strings.Join(cut, "; ") }()
	for _, mime := range []string{"image/png", "image/jpeg"} {
		text, ok := r.Data[mime].(string)
		if !ok {
			continue
		}
		data, err := base64.StdEncoding.DecodeString(text)
		if err == nil && len(data) <= pictureBytes && len(a.pictures) < mostPictures {
			a.pictures = append(a.pictures, Image{MIME: mime, Data: data})
			shown.Image = len(a.pictures)
			break
		}
		cut = append(cut, "a picture that is too large, or one of more than "+strconv.Itoa(mostPictures))
	}
	for _, name := range r.FilePaths {
		shown.Files = append(shown.Files, name)
	}
	slices.Sort(shown.Files)
	if r.Chart != nil {
		shown.Chart = &codeChart{Type: r.Chart.Type, Title: r.Chart.Title}
		for _, axes := range r.Chart.Axes {
			for _, s := range axes.Series {
				shown.Chart.Series = append(shown.Chart.Series, fmt.Sprintf("%s %s (%d points)", s.Type, s.Label, s.Points))
			}
		}
	}
	if r.Table != nil {
		table := *r.Table
		if len(table.Rows) > mostTableRows {
			cut = append(cut, fmt.Sprintf("all rows but the first %d", mostTableRows))
			table.Rows = table.Rows[:mostTableRows]
			table.Index = table.Index[:min(len(table.Index), mostTableRows)]
		}
		if len(encode(table)) <= mostTableBytes {
			shown.Table = &table
			return shown
		}
		cut = []string{"the table as data, which is too wide: choose columns"}
	}
	text := r.Text()
	for _, mime := range []string{"text/markdown", "text/html", "image/svg+xml", "text/latex"} {
		if other, ok := r.Data[mime].(string); ok && text == "" {
			text = other
		}
	}
	text, cutText := shorten(text, most/2, "it is longer")
	if shown.Text = text; cutText {
		cut = append(cut, "the middle of the text")
	}
	if value, ok := r.Data["application/json"]; ok && text == "" {
		if encoded, err := json.Marshal(value); err == nil && len(encoded) <= most/2 {
			shown.JSON = value
		}
	}
	return shown
}
