package s3

import (
	"testing"
	"time"
)

func TestWhereTheBucketsNameStands(t *testing.T) {
	for pathStyle, want := range map[bool]string{
		true:  "https://s3.example.com/snapshots/host-1/a",
		false: "https://snapshots.s3.example.com/host-1/a",
	} {
		s, err := New(Options{
			Endpoint: "https://s3.example.com", Region: "eu-1", Bucket: "snapshots", Prefix: "host-1/", PathStyle: pathStyle,
			AccessKey: "key", SecretKey: "secret",
		})
		if err != nil {
			t.Fatal(err)
		}
		u, err := s.client.PresignedGetObject(t.Context(), s.bucket, s.prefix+"a", time.Minute, nil)
		if err != nil {
			t.Fatal(err)
		}
		u.RawQuery = ""
		if u.String() != want {
			t.Errorf("path style %v: %s, want %s", pathStyle, u, want)
		}
	}
}
