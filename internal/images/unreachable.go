package images

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"syscall"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// whyUnreachable says what stands between this host and a registry.
func whyUnreachable(err error) string {
	if why := whyNotTrusted(err); why != "" {
		return why
	}
	var timeout interface{ Timeout() bool }
	if lookup, ok := errors.AsType[*net.DNSError](err); ok {
		if lookup.IsNotFound {
			return "there is no host " + lookup.Name + "; check the name"
		}
		return "the name " + lookup.Name + " cannot be resolved; check the name servers of the daemon's host"
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection is refused: nothing listens there"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return "the daemon's host has no route to it"
	case errors.Is(err, syscall.ECONNRESET):
		return "it resets the connection"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "it does not answer in time; is a proxy needed (HTTPS_PROXY of the daemon)?"
	}
	if answer, ok := errors.AsType[*transport.Error](err); ok { // before TLS, which was tried first
		return fmt.Sprintf("it answers %d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	}
	if _, isRecord := errors.AsType[tls.RecordHeaderError](err); isRecord || errors.Is(err, http.ErrSchemeMismatch) {
		return "it does not speak TLS; allow plain HTTP with --insecure (\"insecure\": true) if you trust the network"
	}
	return "the connection failed; the daemon's log has the details"
}

// whyNotTrusted says why there is no TLS with a registry, or nothing if that is not it.
func whyNotTrusted(err error) string {
	const install = "have the daemon's host trust its authority (update-ca-certificates)"
	authority, isUnknown := errors.AsType[x509.UnknownAuthorityError](err)
	name, isOther := errors.AsType[x509.HostnameError](err)
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	_, isAlert := errors.AsType[tls.AlertError](err)
	switch {
	case isUnknown && authority.Cert != nil:
		return fmt.Sprintf("TLS: its certificate is of an authority that this host does not know, %q; %s", authority.Cert.Issuer.String(), install)
	case isUnknown:
		return "TLS: its certificate is of an authority that this host does not know; " + install
	case isOther:
		return "TLS: its certificate is for another host than " + name.Host
	case isInvalid && invalid.Reason == x509.Expired:
		return "TLS: its certificate has expired, or the clock of this host is wrong"
	case isInvalid:
		return "TLS: its certificate is not valid: " + invalid.Error()
	case isAlert:
		return "TLS: it refuses the handshake"
	}
	return ""
}
