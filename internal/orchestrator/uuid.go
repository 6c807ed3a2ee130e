package orchestrator

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/hex"
	"strings"
)

// idText is how the core writes its ids, which have 128 bits as UUIDs have.
var idText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NewID returns a random UUID.
func NewID() string {
	var id [16]byte
	rand.Read(id[:]) // never fails: crypto/rand ends the process instead
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return uuidText(id[:])
}

func uuidText(id []byte) string {
	text := hex.EncodeToString(id)
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// ParseUUID returns a UUID as we write it: in lower case, with dashes.
func ParseUUID(text string) (string, bool) {
	if len(text) == 36 && (text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-') {
		return "", false
	}
	if len(text) != 36 && len(text) != 32 {
		return "", false
	}
	id, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(id) != 16 {
		return "", false
	}
	return uuidText(id), true
}

// SnapshotUUID is the core's id of a snapshot as a UUID of the same bits; "" is
// none.
func SnapshotUUID(id string) string {
	bits, err := idText.DecodeString(id)
	if err != nil || len(bits) != 16 {
		return ""
	}
	return uuidText(bits)
}

// SnapshotID is the core's id of a snapshot that clients name as a UUID.
func SnapshotID(uuid string) (string, bool) {
	known, ok := ParseUUID(uuid)
	if !ok {
		return "", false
	}
	bits, err := hex.DecodeString(strings.ReplaceAll(known, "-", ""))
	return idText.EncodeToString(bits), err == nil
}
