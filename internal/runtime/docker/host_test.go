package docker

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// standInVar has the socket that this test program joins its standard input
// and output to when it is run as ssh, or why it refuses.
const standInVar = "SANDKASTEN_TEST_SSH"

// asSSH is what this program does instead of tests when it is called ssh.
func asSSH(args []string) error {
	const command = "docker system dial-stdio"
	switch {
	case !slices.Contains(args, "engine.test") || !strings.HasSuffix(strings.Join(args, " "), command):
		return errors.New("not the command of Docker's own client: " + strings.Join(args, " "))
	case !filepath.IsAbs(os.Getenv(standInVar)):
		_, err := os.Stdin.Read(make([]byte, 1)) // a real one takes longer than its caller
		return errors.Join(errors.New(os.Getenv(standInVar)), err)
	}
	conn, err := new(net.Dialer).DialContext(context.Background(), "unix", os.Getenv(standInVar))
	if err != nil {
		return err
	}
	go func() {
		_, err := io.Copy(conn, os.Stdin)
		if err := errors.Join(err, conn.(*net.UnixConn).CloseWrite()); err != nil { //nolint:forcetypeassert // as it was dialled
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	_, err = io.Copy(os.Stdout, conn)
	return err
}

// standIn makes this test program the host's ssh, on the way to a socket.
func standIn(t *testing.T, socket string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "ssh")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv(standInVar, socket)
}

// certificates has a directory for a server at OwnIP and one for its
// clients, as Docker names their files.
func certificates(t *testing.T) (server, clients string) {
	t.Helper()
	caKey, ca := newKey(t), &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	issue := func(dir, name string, c *x509.Certificate) {
		key := newKey(t)
		c.SerialNumber, c.Subject, c.NotAfter = big.NewInt(2), pkix.Name{CommonName: name}, ca.NotAfter
		writeCertificate(t, filepath.Join(dir, "cert.pem"), c, ca, key, caKey)
		private, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		writePEM(t, filepath.Join(dir, "key.pem"), "PRIVATE KEY", private)
		writeCertificate(t, filepath.Join(dir, "ca.pem"), ca, ca, caKey, caKey)
	}
	server, clients = t.TempDir(), t.TempDir()
	issue(server, "server", &x509.Certificate{IPAddresses: []net.IP{testenv.OwnIP()}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	issue(clients, "client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return server, clients
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writeCertificate(t *testing.T, file string, c, by *x509.Certificate, key, byKey *ecdsa.PrivateKey) {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, c, by, &key.PublicKey, byKey)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, file, "CERTIFICATE", der)
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRemoteEngine has a sandbox on an engine that is reached as one on
// another host is.
func TestRemoteEngine(t *testing.T) {
	testenv.NeedsRoot(t)
	server, clients := certificates(t)
	_, strangers := certificates(t)
	address := "tcp://" + testenv.OwnIP().String() + ":2376"
	in := func(name string) string { return filepath.Join(server, name) }
	e := testenv.StartEngine(t, "--host="+address, "--tlsverify", "--tlscacert="+in("ca.pem"), "--tlscert="+in("cert.pem"), "--tlskey="+in("key.pem"))
	o := options(t, e)
	t.Run("tls", func(t *testing.T) {
		o := o
		o.Host, o.CertPath = address, clients
		checkRemote(t, o)
		o.CertPath = strangers
		if err := open(t, o).Check(t.Context()); !errdefs.Is(err, errdefs.Unavailable) {
			t.Errorf("with certificates of strangers: %v", err)
		}
	})
	t.Run("ssh", func(t *testing.T) {
		standIn(t, strings.TrimPrefix(e.Host, "unix://"))
		o := o
		o.Host = "ssh://engine.test"
		checkRemote(t, o)
	})
}

func checkRemote(t *testing.T, o Options) {
	t.Helper()
	d := open(t, o)
	if err := d.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	x := newBox(t, d, "remote")
	if got := x.run(t, "seq 100000 | wc -l"); got != "100000" {
		t.Errorf("%q", got)
	}
	wantNoNamespace(t, x, "reached over the network")
	if !d.Remote() {
		t.Error("this host is asked for room on the engine's")
	}
}

// TestSSHRefused: what ssh says is what the operator is told.
func TestSSHRefused(t *testing.T) {
	const why = "Permission denied (publickey)."
	standIn(t, why)
	d := offline(t, func(o *Options) { o.Host = "ssh://engine.test" })
	if err := d.Check(t.Context()); !errdefs.Is(err, errdefs.Unavailable) || !strings.Contains(errdefs.MessageOf(err)+err.Error(), why) {
		t.Errorf("%v", err)
	}
}

func TestHostsThatCannotBe(t *testing.T) {
	for name, o := range map[string]Options{
		"ssh password": {Host: "ssh://me:secret@x"},
		"ssh query":    {Host: "ssh://x?y"},
		"certificates": {Host: "tcp://127.0.0.1:1", CertPath: t.TempDir()},
	} {
		o.Node, o.Runner = "test", []byte("program")
		if d, err := New(o); err == nil {
			t.Errorf("%s: it can; %v", name, d.Close())
		}
	}
}
