package runtime

// Difference is one thing that is not as it should be: something that nothing
// needs, something that is missing, or work that is half done.
type Difference struct {
	What     string `json:"what"`     // the kind of thing: "control group"
	Where    string `json:"where"`    // its path, process or id
	Expected string `json:"expected"` // what should be there
	Found    string `json:"found"`    // what is
	Mend     string `json:"mend"`     // what repairs it

	Command string `json:"command,omitempty"` // that repairs it, on the host; empty where none does
	Grave   bool   `json:"-"`                 // something is lost, or cannot be used
}

// MendAtStart is the Mend of what the daemon puts right at its start, and CommandAtStart,
// which is fsck's, while there is no daemon. Anything else is for the operator.
const (
	MendAtStart    = "restart the daemon; or stop it, and run fsck --repair"
	CommandAtStart = "sandkasten fsck --repair"
)

// Inspection is what there is of a driver's sandboxes on a host, seen without a
// Driver and without changing anything.
type Inspection struct {
	Sandboxes   map[ID]Status
	Paused      map[ID]bool          // whose programs stand still; nil if that cannot be told
	Specs       map[ID]Spec          // what they were made of, as far as that can be read
	Workspaces  map[WorkspaceID]bool // nil if the driver has none
	WorkspaceMB map[WorkspaceID]int64
	Differences []Difference // between the parts of sandboxes, whatever sessions there are
}
