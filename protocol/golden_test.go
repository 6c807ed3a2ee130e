package protocol_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/protocol"
)

var update = flag.Bool("update", false, "rewrite the golden conversations in the codec's own form")

// line is one frame of a golden conversation.
type line struct {
	From    string          `json:"from"` // daemon or runner
	Frame   json.RawMessage `json:"frame"`
	Payload string          `json:"payload,omitempty"`
}

// bodies are the structs that belong to the types.
var bodies = map[protocol.Type]any{
	protocol.TypePong: protocol.Pong{}, protocol.TypeExec: protocol.Exec{}, protocol.TypeAttach: protocol.Attach{},
	protocol.TypeOutput: protocol.Output{}, protocol.TypeDone: protocol.Record{}, protocol.TypeCancel: protocol.Cancel{},
	protocol.TypeRecords: protocol.Records{}, protocol.TypeRead: protocol.Read{}, protocol.TypeFile: protocol.FileInfo{},
	protocol.TypeWrite: protocol.Write{}, protocol.TypeList: protocol.List{}, protocol.TypeEntries: protocol.Entries{},
	protocol.TypeResize: protocol.Resize{},
	protocol.TypeError:  protocol.Error{},

	protocol.TypeStart: protocol.Start{}, protocol.TypeStarted: protocol.Record{}, protocol.TypeStdin: protocol.Stdin{},
	protocol.TypeTaken: protocol.Taken{}, protocol.TypeSignal: protocol.Signal{}, protocol.TypeShellList: protocol.ShellList{},
	protocol.TypeCloseShell: protocol.CloseShell{}, protocol.TypePortList: protocol.PortList{}, protocol.TypeDial: protocol.Dial{},

	protocol.TypeSettle: protocol.Settle{}, protocol.TypeHold: protocol.Hold{}, protocol.TypeHeld: protocol.Held{},

	protocol.TypeStat: protocol.Stat{}, protocol.TypeInfo: protocol.FileInfo{}, protocol.TypeMkdir: protocol.Mkdir{},
	protocol.TypeMove: protocol.Move{}, protocol.TypeCopy: protocol.Copy{}, protocol.TypeRemove: protocol.Remove{},
	protocol.TypeChmod: protocol.Chmod{}, protocol.TypeGlob: protocol.Glob{}, protocol.TypeGrep: protocol.Grep{},
	protocol.TypeMatches: protocol.Matches{}, protocol.TypeEdit: protocol.Edit{}, protocol.TypeEdited: protocol.Edited{},
	protocol.TypeWatch: protocol.Watch{}, protocol.TypeChange: protocol.Change{}, protocol.TypePack: protocol.Pack{},
	protocol.TypeUnpack: protocol.Unpack{}, protocol.TypeUnpacked: protocol.Unpacked{},
}

var bodiless = []protocol.Type{
	protocol.TypePing, protocol.TypeExecs, protocol.TypeOK, protocol.TypeLent, protocol.TypeAccepted,
	protocol.TypeShells, protocol.TypePorts, protocol.TypeBytes,
}

// The conversations are the protocol as other implementations have to speak
// it: each frame must be read as its type, and be written as it stands there.
func TestGoldenConversations(t *testing.T) {
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversations: %v", err)
	}
	seen := map[protocol.Type]bool{}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) { checkConversation(t, file, seen) })
	}
	for typ := range bodies {
		if !seen[typ] {
			t.Errorf("no conversation has a %s frame", typ)
		}
	}
	for _, typ := range bodiless {
		if !seen[typ] {
			t.Errorf("no conversation has a %s frame", typ)
		}
	}
}

func checkConversation(t *testing.T, file string, seen map[protocol.Type]bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rewritten bytes.Buffer
	open := false // a request that has not been answered
	for sc := bufio.NewScanner(bytes.NewReader(text)); sc.Scan(); {
		var l line
		if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
			t.Fatalf("%s: %v", sc.Text(), err)
		}
		side := protocol.Daemon
		if l.From == "runner" {
			side = protocol.Runner
		}
		wire := string(l.Frame) + "\n" + l.Payload
		h, again := reencode(t, wire, side, l.Payload)
		seen[h.Type] = true
		if again != wire && !*update {
			t.Errorf("read:    %swritten: %s", wire, again)
		}
		l.Frame = json.RawMessage(strings.TrimSuffix(again, "\n"+l.Payload))
		if err := json.NewEncoder(&rewritten).Encode(l); err != nil {
			t.Fatal(err)
		}
		if side == protocol.Runner && !open {
			t.Errorf("the runner speaks without being asked: %s", l.Frame)
		}
		open = side == protocol.Daemon || !h.Type.Final()
	}
	if open {
		t.Error("the last request has no final frame")
	}
	if *update {
		if err := os.WriteFile(file, rewritten.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// reencode reads one frame into its struct and writes it again.
func reencode(t *testing.T, wire string, side protocol.Side, payload string) (protocol.Header, string) {
	t.Helper()
	r := protocol.NewReader(strings.NewReader(wire), side)
	h, err := r.Next()
	if err != nil {
		t.Fatalf("%s: %v", wire, err)
	}
	var body any
	if zero, ok := bodies[h.Type]; ok {
		v := reflect.New(reflect.TypeOf(zero))
		if err := h.Decode(v.Interface()); err != nil {
			t.Fatal(err)
		}
		body = v.Elem().Interface()
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != payload {
		t.Fatalf("%s: payload %q, %v", wire, got, err)
	}
	var again bytes.Buffer
	if err := protocol.NewWriter(&again).Send(h.Type, body, []byte(payload)); err != nil {
		t.Fatal(err)
	}
	return h, again.String()
}

// PROTOCOL.md must list every message and no other.
func TestProtocolDocument(t *testing.T) {
	text, err := os.ReadFile("PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[protocol.Type]bool{}
	for l := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(l, "| `"); ok {
			name, _, _ = strings.Cut(name, "`")
			listed[protocol.Type(name)] = true
		}
	}
	want := map[protocol.Type]bool{}
	for typ := range bodies {
		want[typ] = true
	}
	for _, typ := range bodiless {
		want[typ] = true
	}
	if !reflect.DeepEqual(listed, want) {
		t.Errorf("PROTOCOL.md lists %v, want %v", listed, want)
	}
}
