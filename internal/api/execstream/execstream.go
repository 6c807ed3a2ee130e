// Package execstream turns what an exec writes into the forms in which clients
// read it: text in an answer, chunks of a poll, events of a stream. It knows
// bytes, streams and offsets, and nothing of sessions. Collector, Chunker and
// Events each are the writer that the session manager is given.
package execstream
