package mcpserver

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandkasten/sandkasten/agents/tools"
)

func TestPicturesAreImageContent(t *testing.T) {
	png := []byte("\x89PNG")
	got := answer(tools.Result{JSON: json.RawMessage(`{"ok":true}`), Images: []tools.Image{{MIME: "image/png", Data: png}}})
	if len(got.Content) != 2 {
		t.Fatalf("%d contents", len(got.Content))
	}
	image, ok := got.Content[1].(*mcp.ImageContent)
	if !ok || image.MIMEType != "image/png" || !bytes.Equal(image.Data, png) {
		t.Errorf("%+v", got.Content[1])
	}
}
