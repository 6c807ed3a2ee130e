package workflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/sandkasten/sandkasten/agents/model"
)

// Kinds of records.
const (
	recordBegin   = "begin"   // of the run
	recordStep    = "step"    // a step begins
	recordMessage = "message" // of the step's agent
	recordDone    = "done"    // the step is done
	recordEnd     = "end"     // of the run, in success or not
	recordClean   = "clean"   // nothing of the run is left
)

// record is one line of a journal.
type record struct {
	Kind   string          `json:"kind"`
	Run    string          `json:"run,omitempty"`
	Digest string          `json:"digest,omitempty"` // of the workflow's file
	Input  string          `json:"input,omitempty"`
	Step   string          `json:"step,omitempty"`
	Visit  int             `json:"visit,omitempty"`
	Next   string          `json:"next,omitempty"`
	Text   string          `json:"text,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
	Error  string          `json:"error,omitempty"`
	// Isolated says that the step's agent has a sandbox of its own.
	Isolated bool           `json:"isolated,omitempty"`
	Message  *model.Message `json:"message,omitempty"`
}

// journal is a file of records. What write has returned of survives a crash.
type journal struct {
	file *os.File
}

// openJournal returns a run's journal and what is in it. Nobody else may have it open.
func openJournal(dir, run string) (*journal, []record, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("make the directory of journals: %w", err)
	}
	name := filepath.Join(dir, run+".jsonl")
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open the journal: %w", err)
	}
	j := &journal{file}
	records, err := j.begin(dir)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("journal %s: %w", name, err), file.Close())
	}
	return j, records, nil
}

func (j *journal) begin(dir string) ([]record, error) {
	err := syscall.Flock(int(j.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.New("the run is under way in another process; wait for it or end it")
	}
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if err := syncDir(dir); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(j.file.Name())
	if err != nil {
		return nil, err
	}
	// A line without an end was being written when the run was killed.
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	if err := j.file.Truncate(int64(len(whole))); err != nil {
		return nil, err
	}
	var records []record
	for line := range bytes.Lines(whole) {
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(records)+1, err)
		}
		records = append(records, r)
	}
	return records, nil
}

func (j *journal) write(r record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return nil
}

func (j *journal) close() error { return j.file.Close() }

// hasJournal tells whether a run was ever begun.
func hasJournal(dir, run string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, run+".jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// syncDir makes a new file's name durable.
func syncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
