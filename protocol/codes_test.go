package protocol_test

import (
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/protocol"
)

func TestCodesAreErrdefs(t *testing.T) {
	for ours, theirs := range map[string]errdefs.Code{
		protocol.CodeInvalid: errdefs.InvalidArgument, protocol.CodeDenied: errdefs.PermissionDenied, protocol.CodeNotFound: errdefs.NotFound,
		protocol.CodeExists: errdefs.AlreadyExists, protocol.CodePrecondition: errdefs.PreconditionFailed, protocol.CodeTooLarge: errdefs.TooLarge,
		protocol.CodeUnprocessable: errdefs.Unprocessable, protocol.CodeExhausted: errdefs.ResourceExhausted, protocol.CodeInternal: errdefs.Internal,
		protocol.CodeUnavailable: errdefs.Unavailable, protocol.CodeNoSpace: errdefs.InsufficientSpace,
	} {
		if ours != string(theirs) {
			t.Errorf("%q is %q in errdefs", ours, theirs)
		}
	}
}
