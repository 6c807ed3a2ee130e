package sandkasten

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
)

// NewFile is a file that is to be uploaded beside others.
type NewFile struct {
	Name    string    // without a directory
	Content io.Reader // is read from where it is to its end, and not closed
	Size    int64     // of the content, if it is neither a buffer nor can seek
}

// UploadFiles writes several files in one request and returns their paths. With one
// file, to is its path unless it ends in a slash or is a directory; with several it
// is the directory; an empty one is /workspace. Each file is written atomically, and
// none before all have arrived.
func (f *Files) UploadFiles(ctx context.Context, to string, files ...NewFile) ([]string, error) {
	body, err := newForm(to, files)
	if err != nil {
		return nil, err
	}
	var done struct {
		Paths []string `json:"paths"`
	}
	r := f.as(request{method: http.MethodPost, path: f.path + "upload", body: body})
	err = f.client.call(ctx, r, &done)
	return done.Paths, err
}

// form is a multipart form that can be sent again if all its files can.
type form struct {
	io.Reader
	pieces []*source
}

// newForm makes a form of a path and files, which are not read yet.
func newForm(to string, files []NewFile) (*source, error) {
	var text bytes.Buffer
	var pieces []*source
	again := true
	between := func() { // takes what the writer has written
		piece := strings.NewReader(text.String())
		text.Reset()
		pieces = append(pieces, &source{size: piece.Size(), reader: piece, seeker: piece})
	}
	w := multipart.NewWriter(&text)
	if to != "" {
		if err := w.WriteField("path", to); err != nil {
			return nil, err
		}
	}
	for _, file := range files {
		if file.Name == "" || strings.ContainsAny(file.Name, "/\r\n\x00") {
			return nil, fmt.Errorf("the name %q of a file to upload is empty or has a slash or a line's end in it: give its directory apart, or use Write", file.Name)
		}
		if _, err := w.CreateFormFile("files", file.Name); err != nil {
			return nil, err
		}
		between()
		content, err := newSource("", file.Content, file.Size)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name, err)
		}
		again = again && content.seeker != nil
		pieces = append(pieces, content)
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	between()

	whole := &form{pieces: pieces}
	whole.begin()
	body := &source{kind: w.FormDataContentType(), reader: whole}
	for _, piece := range pieces {
		body.size += piece.size
	}
	if again {
		body.seeker = whole
	}
	return body, nil
}

// begin joins the pieces. A file that has grown is sent as far as was announced.
func (f *form) begin() {
	readers := make([]io.Reader, len(f.pieces))
	for i, piece := range f.pieces {
		readers[i] = io.LimitReader(piece.reader, piece.size)
	}
	f.Reader = io.MultiReader(readers...)
}

// Seek goes to the start, which is all that is asked of it.
func (f *form) Seek(int64, int) (int64, error) {
	for _, piece := range f.pieces {
		if err := piece.rewind(); err != nil {
			return 0, err
		}
	}
	f.begin()
	return 0, nil
}
