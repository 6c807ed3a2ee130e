package contexts

import "encoding/json"

// Cause says how a run ended. The values are part of the API.
type Cause string

// The causes. The state of the kernel is gone where StateLost says so.
const (
	CauseRunning     Cause = "running" // it has not ended
	CauseCompleted   Cause = "completed"
	CauseError       Cause = "error"       // the code raised an exception
	CauseInterrupted Cause = "interrupted" // by a request
	CauseTimeout     Cause = "timeout"     // it was interrupted, and killed if that was of no use
	CauseKernelDied  Cause = "kernel_died" // by itself, or it was killed
	CauseOOMKilled   Cause = "oom_killed"  // the sandbox's memory was used up
	CauseCanceled    Cause = "canceled"    // the context was restarted or deleted
	CauseSandboxGone Cause = "sandbox_gone"
)

func (c Cause) known() bool {
	switch c {
	case CauseRunning, CauseCompleted, CauseError, CauseInterrupted, CauseTimeout, CauseKernelDied, CauseOOMKilled, CauseCanceled, CauseSandboxGone:
		return true
	}
	return false
}

// Answer is what came of a run.
type Answer struct {
	RunID          string    `json:"run_id" doc:"For GET runs/{run_id}. The context keeps its last 32 runs." example:"k3m5n6p7r2s3t4u5f5q2bz7lq4"`
	Cause          Cause     `json:"cause" enum:"running,completed,error,interrupted,timeout,kernel_died,oom_killed,canceled,sandbox_gone" doc:"How it ended. error: the code raised. timeout: it was interrupted at its timeout, which keeps the state, and killed if it went on. kernel_died: the kernel ended. oom_killed: the sandbox's memory was used up. canceled: the context was restarted or deleted." example:"completed"`
	Results        []Result  `json:"results" nullable:"false" doc:"What the code displayed, and at last the value of its last expression."`
	Stdout         string    `json:"stdout" doc:"Without control sequences, and without lines that a carriage return has overwritten. Beyond 1 MiB the first and the last half are kept." example:"hi\n"`
	Stderr         string    `json:"stderr" doc:"As stdout."`
	Error          *RunError `json:"error,omitempty" doc:"The exception, if the code raised one."`
	ExecutionCount int       `json:"execution_count" doc:"The kernel's number of the run, or 0." example:"1"`
	DurationMS     int64     `json:"duration_ms" doc:"Without the time that it waited for others." example:"9"`
	StateLost      bool      `json:"state_lost" doc:"The kernel ended in this run: variables and imports are gone. Files stay. The next run gets a new kernel."`
	NewKernel      bool      `json:"new_kernel" doc:"It is not the kernel that ran the context's code before: variables of before are gone. So it is after a restart, a kernel's end, a stop and in a fork."`
	PeakMemory     int64     `json:"peak_memory_bytes,omitempty" doc:"The most memory that the kernel's process had in the run, also if it was killed. Its children are not in it." example:"71303168"`
	DiskFull       bool      `json:"disk_full,omitempty" doc:"It failed, and the disk or the workspace had no room left then."`

	StdoutDroppedBytes int64  `json:"stdout_dropped_bytes,omitempty" doc:"Bytes that stdout lacks."`
	StdoutFile         string `json:"stdout_file,omitempty" doc:"The file in the sandbox that has all of stdout, if it was too long." example:"/workspace/.sandkasten-outputs/k3m5n6p7r2s3t4u5f5q2bz7lq4-stdout.txt"`
	StdoutFileError    string `json:"stdout_file_error,omitempty" doc:"Why the file has not all."`
	StderrDroppedBytes int64  `json:"stderr_dropped_bytes,omitempty"`
	StderrFile         string `json:"stderr_file,omitempty"`
	StderrFileError    string `json:"stderr_file_error,omitempty"`
	DroppedResults     int    `json:"dropped_results,omitempty" doc:"Results beyond the first 256."`

	KernelExitCode int    `json:"kernel_exit_code,omitempty" doc:"Of a kernel that died."`
	KernelSignal   int    `json:"kernel_signal,omitempty" doc:"The signal that a kernel died of." example:"11"`
	KernelLog      string `json:"kernel_log,omitempty" doc:"The last that a kernel said that died."`
}

// Result is one thing that a run displayed, in several forms.
type Result struct {
	Data         map[string]any    `json:"data" doc:"The forms, by MIME type. Pictures are base64, texts are texts, application/json is a value." example:"{\"text/plain\":\"2\"}"`
	IsMainResult bool              `json:"is_main_result" doc:"It is the value of the last expression."`
	DisplayID    string            `json:"display_id,omitempty" doc:"Its name for later updates, which have taken place."`
	Chart        *Chart            `json:"chart,omitempty" doc:"What a figure of matplotlib or plotly shows, as numbers."`
	Table        *Table            `json:"table,omitempty" doc:"The first rows and columns of a data frame."`
	Note         string            `json:"note,omitempty" doc:"What this result cannot have."`
	FilePaths    map[string]string `json:"file_paths,omitempty" doc:"Forms that were too large for the answer: files in the sandbox, by MIME type."`
	DroppedBytes int64             `json:"dropped_bytes,omitempty" doc:"Of these forms."`
}

// UnmarshalJSON reads what a bridge sends. A chart or table of another shape, which code
// in the kernel can make, is left out.
func (r *Result) UnmarshalJSON(data []byte) error {
	type plain Result
	var raw struct {
		plain
		Chart json.RawMessage `json:"chart"`
		Table json.RawMessage `json:"table"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	*r = Result(raw.plain)
	var chart Chart
	if raw.Chart != nil && json.Unmarshal(raw.Chart, &chart) == nil {
		r.Chart = &chart
	}
	var table Table
	if raw.Table != nil && json.Unmarshal(raw.Table, &table) == nil {
		r.Table = &table
	}
	return nil
}

// RunError is an exception.
type RunError struct {
	Name      string `json:"name" example:"ZeroDivisionError"`
	Value     string `json:"value" example:"division by zero"`
	Traceback string `json:"traceback" doc:"For people. Beyond 64 KiB its middle is left out." example:"Traceback (most recent call last): ..."`
}

// Table is a part of a data frame.
type Table struct {
	Columns []Column `json:"columns" nullable:"false" doc:"At most 50."`
	Rows    [][]any  `json:"rows" nullable:"false" doc:"At most 100, each with a value per column: a text, a number, a boolean or null."`
	Index   []any    `json:"index,omitempty" nullable:"false" doc:"The labels of the rows, where the frame has some."`
	Shape   []int64  `json:"shape" nullable:"false" doc:"Rows and columns of the whole frame." example:"[3,2]"`
}

// Column is one of a data frame.
type Column struct {
	Name string `json:"name" example:"price"`
	Type string `json:"type" doc:"As the library calls it." example:"float64"`
}

// Chart is a figure as numbers.
type Chart struct {
	Library string `json:"library" example:"matplotlib"`
	Type    string `json:"type" doc:"That of all series: line, bar, horizontal_bar, scatter, pie, image, or what plotly calls others; mixed, or empty." example:"line"`
	Title   string `json:"title" example:"Sales"`
	Axes    []Axes `json:"axes" nullable:"false"`
}

// Axes is one plot of a chart.
type Axes struct {
	Type   string   `json:"type" example:"line"`
	Title  string   `json:"title" example:"Sales"`
	XLabel string   `json:"x_label" example:"month"`
	YLabel string   `json:"y_label" example:"EUR"`
	XScale string   `json:"x_scale" example:"linear"`
	YScale string   `json:"y_scale" example:"linear"`
	Series []Series `json:"series" nullable:"false"`
}

// Series is what belongs together in a plot.
type Series struct {
	Type   string  `json:"type" example:"line"`
	Label  string  `json:"label,omitempty"`
	Points int     `json:"points,omitempty" doc:"How many there are; x and y have the first 1000." example:"3"`
	X      []any   `json:"x,omitempty" nullable:"false" doc:"Numbers or texts. Of a pie, the names."`
	Y      []any   `json:"y,omitempty" nullable:"false" doc:"Of a pie, the shares."`
	Shape  []int64 `json:"shape,omitempty" nullable:"false" doc:"Of an image."`
}

// Event is what happens in a run.
type Event struct {
	Type    string    `json:"type"`
	Text    string    `json:"text,omitempty"`
	Result  *Result   `json:"result,omitempty"`
	Updates bool      `json:"updates,omitempty"`
	Error   *RunError `json:"error,omitempty"`
}
