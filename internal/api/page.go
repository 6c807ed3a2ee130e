package api

import (
	"net/http"

	"github.com/sandkasten/sandkasten/internal/protection"
)

// PageHeaders sets what every page of ours has: policy, which says what it may load,
// and that no other page shows it in a frame, keeps hold of its window or learns its
// address.
func PageHeaders(header http.Header, policy string) {
	if !protection.Off(protection.Frames) {
		policy += "; frame-ancestors 'none'"
		header.Set("X-Frame-Options", "DENY")
	}
	header.Set("Content-Security-Policy", policy)
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Referrer-Policy", "no-referrer")
}
