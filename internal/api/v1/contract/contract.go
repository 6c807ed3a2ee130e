// Package contract has the shapes that several parts of /v1 share: the path of a
// session and the answer where there is nothing to say. Handlers and what only
// one part needs do not belong here.
package contract

// SessionPath is what every route of one session takes. It is exported, as is
// what else is embedded in inputs, because the kit passes over what is not.
type SessionPath struct {
	ID string `path:"id" doc:"The session's id, its name, or the beginning of its id, of three characters or more, if no other of the key's sessions begins so." example:"f5q2bz7lq4m3k5n6p7r2s3t4u5"`
}

// OK is the answer where there is nothing to say.
type OK struct {
	OK bool `json:"ok" example:"true"`
}

// OKOutput is OK as the kit wants it.
type OKOutput struct{ Body OK }

// Done is the OKOutput.
func Done() *OKOutput { return &OKOutput{OK{true}} }
