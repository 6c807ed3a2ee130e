package api

import (
	"net/http"
	"time"
)

// Patient returns w with a new deadline for every write, so that a stream or a
// big file may take its time and a client that takes nothing may not.
func Patient(w http.ResponseWriter) http.ResponseWriter {
	return &patient{ResponseWriter: w, control: http.NewResponseController(w)}
}

type patient struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (p *patient) Write(b []byte) (int, error) {
	if err := p.control.SetWriteDeadline(time.Now().Add(WriteTimeout)); err != nil {
		return 0, err
	}
	return p.ResponseWriter.Write(b)
}

// Unwrap lets a response controller flush, and take the connection over.
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }
