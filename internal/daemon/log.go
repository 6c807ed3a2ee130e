package daemon

import (
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/lmittmann/tint"
	"golang.org/x/term"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/protection"
)

var levels = map[string]slog.Level{
	"debug": slog.LevelDebug,
	"info":  slog.LevelInfo,
	"warn":  slog.LevelWarn,
	"error": slog.LevelError,
}

// NewLog writes to w as c says: text for people, JSON for programs.
func NewLog(c config.Log, w io.Writer) *slog.Logger {
	level := levels[c.Level]
	onTerminal := isTerminal(w)
	if protection.Off(protection.LogQuotes) {
		w = unquoted{w}
	}
	if c.Format == "json" || c.Format == "auto" && !onTerminal {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
	}
	return slog.New(tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: time.TimeOnly, NoColor: !onTerminal}))
}

// unquoted is a log without its handlers' protection: what they have written for
// control characters becomes these again.
type unquoted struct{ io.Writer }

func (u unquoted) Write(line []byte) (int, error) {
	_, err := strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\u001b`, "\x1b", `\x1b`, "\x1b").WriteString(u.Writer, string(line))
	return len(line), err
}

func isTerminal(w io.Writer) bool {
	if l, queued := w.(*LogWriter); queued {
		w = l.w
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
