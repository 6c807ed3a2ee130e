package relay

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"sync"
	"time"
)

// Authority is what the programs of one sandbox trust, so that the relay can stand
// for the hosts that get its secrets. Its key never enters the sandbox.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	der  []byte

	mu     sync.Mutex
	leaves map[string]*tls.Certificate // guarded by mu
}

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 24 * time.Hour
	clockSkew     = time.Hour
	maxLeaves     = 256
)

// NewAuthority makes one.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serialNumber(), Subject: pkix.Name{CommonName: "Sandkasten, for this sandbox"},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return authorityOf(der, key)
}

func authorityOf(der []byte, key *ecdsa.PrivateKey) (*Authority, error) {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &Authority{cert: cert, key: key, der: der, leaves: make(map[string]*tls.Certificate)}, nil
}

// Certificate is what the sandbox has to trust, as PEM.
func (a *Authority) Certificate() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.der})
}

// Marshal is the authority with its key, as PEM: for whoever keeps it, outside.
func (a *Authority) Marshal() ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(a.key)
	if err != nil {
		return nil, err
	}
	return append(a.Certificate(), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})...), nil
}

// ParseAuthority reads what Marshal wrote.
func ParseAuthority(text []byte) (*Authority, error) {
	cert, rest := pem.Decode(text)
	private, _ := pem.Decode(rest)
	if cert == nil || private == nil {
		return nil, fmt.Errorf("a certificate and its key are needed")
	}
	key, err := x509.ParseECPrivateKey(private.Bytes)
	if err != nil {
		return nil, err
	}
	return authorityOf(cert.Bytes, key)
}

// leaf is a certificate for one host.
func (a *Authority) leaf(name string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if known := a.leaves[name]; known != nil && now.Before(known.Leaf.NotAfter.Add(-clockSkew)) {
		return known, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serialNumber(), Subject: pkix.Name{CommonName: name[:min(len(name), 64)]}, DNSNames: []string{name},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(leafLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	if len(a.leaves) >= maxLeaves {
		clear(a.leaves)
	}
	made := &tls.Certificate{Certificate: [][]byte{der, a.der}, PrivateKey: key, Leaf: cert}
	a.leaves[name] = made
	return made, nil
}

func serialNumber() *big.Int {
	var random [16]byte
	rand.Read(random[:]) // never fails
	return new(big.Int).SetBytes(random[:])
}
