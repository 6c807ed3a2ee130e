// Package docs carries the documentation, so that every daemon can serve the
// pages of its own version. It is the text only: what turns it into a site is
// internal/api/site.
package docs

import "embed"

// FS has the pages as Markdown, and their pictures. The page that begins the site is
// index.md; its lists are the site's navigation.
//
//go:embed *.md decisions/*.md pictures/*.webp
var FS embed.FS
