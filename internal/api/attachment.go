package api

import (
	"mime"
	"strings"
)

// Attachment is the Content-Disposition of a file that browsers store and do not show. Of a path it
// tells the last part alone, for any system's separator: some clients write to wherever a name leads.
func Attachment(name string) string {
	name = strings.ToValidUTF8(name, "_")
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	if name == "" || name == "." || name == ".." {
		name = "file"
	}
	return mime.FormatMediaType("attachment", map[string]string{"filename": name})
}
