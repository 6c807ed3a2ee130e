package orchestrator

import (
	"errors"
	"io"
	"mime/multipart"
	"net/http"
)

// filePart is the first file of a form. What is before it is skipped.
func filePart(body io.Reader, boundary string) (io.Reader, error) {
	form := multipart.NewReader(body, boundary)
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return nil, &statusError{status: http.StatusBadRequest, text: "the form has no file"}
		}
		if err != nil {
			return nil, &statusError{http.StatusBadRequest, "Multipart form parse error - " + err.Error(), err}
		}
		if part.FileName() != "" {
			return part, nil
		}
	}
}
