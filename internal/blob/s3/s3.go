// Package s3 keeps blobs in a bucket of Amazon's S3 or of any server that
// speaks its protocol. It is the one place that knows a client for it.
package s3

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/sandkasten/sandkasten/internal/blob"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/protection"
)

// Options say where a bucket is and who we are there.
type Options struct {
	Endpoint  string // URL of the server, without a path; https is TLS
	CAFile    string // certificates to trust, as PEM, instead of the host's; empty: those
	Region    string // empty: asked from the server
	Bucket    string
	Prefix    string // of all keys in the bucket, as "host-a/"; empty: the bucket is ours alone
	PathStyle bool   // the bucket's name stands in the path, not in the host
	AccessKey string
	SecretKey string
	Token     string // of temporary keys; empty: none
}

const (
	// partSize bounds the memory of a Put: two parts are there at one time. A
	// bucket takes 10,000 parts, so the largest blob has 156 GiB.
	partSize = 16 << 20
	threads  = 2

	// small is the size from which on a blob is sent in parts; one request does
	// for less.
	small = 1 << 20

	// attempts of one request, with pauses that grow to a second.
	attempts = 5
)

// Store keeps blobs in a bucket.
type Store struct {
	client *minio.Core
	bucket string
	prefix string

	mu      sync.Mutex
	putting map[string]int // guarded by mu; the Puts under way, by the object's name
}

// New returns the store in a bucket that exists. It does not talk to the
// server: the first call of the store does. One process may use a bucket's
// prefix at a time, since Sweep ends the uploads of all others.
func New(o Options) (*Store, error) {
	if o.Prefix != "" {
		if err := blob.CheckPrefix(o.Prefix); err != nil {
			return nil, fmt.Errorf("open bucket: %w", err)
		}
	}
	if err := s3utils.CheckValidBucketName(o.Bucket); err != nil {
		return nil, fmt.Errorf("open bucket %q: %w", o.Bucket, err)
	}
	endpoint, err := url.Parse(o.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("open bucket: %w", err)
	}
	secure := endpoint.Scheme == "https"
	transport, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, fmt.Errorf("open bucket: %w", err)
	}
	if o.CAFile != "" && secure {
		if transport.TLSClientConfig.RootCAs, err = readCAs(o.CAFile); err != nil {
			return nil, fmt.Errorf("open bucket: %w", err)
		}
	}
	lookup := minio.BucketLookupDNS
	if o.PathStyle {
		lookup = minio.BucketLookupPath
	}
	client, err := minio.NewCore(endpoint.Host, &minio.Options{
		Creds:        credentials.NewStaticV4(o.AccessKey, o.SecretKey, o.Token),
		Secure:       secure,
		Transport:    bodyOnce{transport},
		Region:       o.Region,
		BucketLookup: lookup,
		MaxRetries:   attempts,
	})
	if err != nil {
		return nil, fmt.Errorf("open bucket: %w", err)
	}
	return &Store{client: client, bucket: o.Bucket, prefix: o.Prefix, putting: map[string]int{}}, nil
}

func readCAs(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate in it: write one or more as PEM", file)
	}
	return pool, nil
}

// Put implements blob.Store. Parts that were sent before a failure are removed
// at once if the server answers, and by Sweep if it does not.
func (s *Store) Put(ctx context.Context, key string, r io.Reader) (int64, error) {
	if err := blob.CheckKey(key); err != nil {
		return 0, err
	}
	defer s.begin(s.prefix + key)()
	src := &source{r: r}
	start, err := io.ReadAll(io.LimitReader(src, small))
	switch {
	case err != nil:
	case len(start) < small:
		err = s.send(ctx, key, bytes.NewReader(start), src.size)
	default:
		err = s.send(ctx, key, io.MultiReader(bytes.NewReader(start), src), unknown)
	}
	if err != nil {
		return src.size, s.fail(ctx, "put", key, err)
	}
	return src.size, nil
}

// begin notes a Put, which Sweep leaves alone until end is called.
func (s *Store) begin(name string) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.putting[name]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.putting[name]--; s.putting[name] == 0 {
			delete(s.putting, name)
		}
	}
}

func (s *Store) isPutting(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.putting[name] > 0
}

// unknown is the size of an object that is sent in parts until r ends.
const unknown = -1

func (s *Store) send(ctx context.Context, key string, r io.Reader, size int64) error {
	_, err := s.client.Client.PutObject(ctx, s.bucket, s.prefix+key, r, size, minio.PutObjectOptions{
		PartSize:              partSize,
		NumThreads:            threads,
		ConcurrentStreamParts: true,
	})
	return err
}

// source counts what is read of r. It hides which error r has: the client
// takes io.ErrUnexpectedEOF, the error of a source that was cut, for its end.
type source struct {
	r    io.Reader
	size int64
}

type sourceError struct{ error }

func (e sourceError) Unwrap() error { return e.error }

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.size += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		err = sourceError{err}
	}
	return n, err
}

// Open implements blob.Store.
func (s *Store) Open(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	if err := blob.CheckKey(key); err != nil {
		return nil, err
	}
	var opts minio.GetObjectOptions
	if offset != 0 {
		// A server refuses a range that begins at the end.
		info, err := s.Stat(ctx, key)
		if err != nil {
			return nil, err
		}
		if err := blob.CheckOffset(key, offset, info.Size); err != nil {
			return nil, err
		}
		if offset == info.Size {
			return io.NopCloser(strings.NewReader("")), nil
		}
		if err := opts.SetRange(offset, 0); err != nil {
			return nil, s.fail(ctx, "open", key, err)
		}
	}
	r, _, _, err := s.client.GetObject(ctx, s.bucket, s.prefix+key, opts)
	if err != nil {
		return nil, s.fail(ctx, "open", key, err)
	}
	return &object{r, ctx}, nil
}

// object is a blob that is being read. A connection that breaks is the store's
// trouble and no end of the blob.
type object struct {
	io.ReadCloser
	ctx context.Context //nolint:containedctx // of the request whose answer this is
}

func (o *object) Read(p []byte) (int, error) {
	n, err := o.ReadCloser.Read(p)
	if err == nil || errors.Is(err, io.EOF) || o.ctx.Err() != nil {
		return n, err
	}
	// Only its text: io.ErrUnexpectedEOF would be taken for a blob that is too short.
	return n, errdefs.Wrap(errors.New(err.Error()), errdefs.Unavailable, "the blob store broke off: try again later")
}

// Link returns a URL that reads key for a time, at most a week, without other
// credentials. Answers have these headers, as response-content-type.
func (s *Store) Link(ctx context.Context, key string, life time.Duration, headers url.Values) (string, error) {
	if err := blob.CheckKey(key); err != nil {
		return "", err
	}
	link, err := s.client.PresignedGetObject(ctx, s.bucket, s.prefix+key, life, headers)
	if err != nil {
		return "", s.fail(ctx, "sign", key, err)
	}
	return link.String(), nil
}

// Stat implements blob.Store.
func (s *Store) Stat(ctx context.Context, key string) (blob.Info, error) {
	if err := blob.CheckKey(key); err != nil {
		return blob.Info{}, err
	}
	o, err := s.client.StatObject(ctx, s.bucket, s.prefix+key, minio.StatObjectOptions{})
	if err != nil && minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		err = s.checkBucket(ctx, err)
	}
	if err != nil {
		return blob.Info{}, s.fail(ctx, "stat", key, err)
	}
	return blob.Info{Key: key, Size: o.Size, ModTime: o.LastModified}, nil
}

// checkBucket returns missing, of an object that is not there, unless its bucket is not
// there either: an answer to HEAD has no body that would tell the two apart.
func (s *Store) checkBucket(ctx context.Context, missing error) error {
	there, err := s.client.BucketExists(ctx, s.bucket)
	if err == nil && !there {
		return minio.ErrorResponse{Code: minio.NoSuchBucket, StatusCode: http.StatusNotFound, BucketName: s.bucket}
	}
	return missing
}

// List implements blob.Store. An object whose name is no key is passed over.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		if err := blob.CheckPrefix(prefix); err != nil {
			yield(blob.Info{}, err)
			return
		}
		opts := minio.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true}
		for o := range s.client.ListObjectsIter(ctx, s.bucket, opts) {
			if o.Err != nil {
				yield(blob.Info{}, s.fail(ctx, "list", prefix, o.Err))
				return
			}
			key := strings.TrimPrefix(o.Key, s.prefix)
			if blob.CheckKey(key) != nil {
				continue
			}
			if !yield(blob.Info{Key: key, Size: o.Size, ModTime: o.LastModified}, nil) {
				return
			}
		}
	}
}

// Delete implements blob.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := blob.CheckKey(key); err != nil {
		return err
	}
	err := s.client.RemoveObject(ctx, s.bucket, s.prefix+key, minio.RemoveObjectOptions{})
	if err != nil && minio.ToErrorResponse(err).Code != minio.NoSuchKey {
		return s.fail(ctx, "delete", key, err)
	}
	return nil
}

// Sweep implements blob.Store: it ends the uploads below our prefix that no Put of
// this store has under way.
func (s *Store) Sweep(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the listing when we leave it early
	var errs []error
	for upload := range s.client.ListIncompleteUploads(ctx, s.bucket, s.prefix, true) {
		if upload.Err != nil {
			errs = append(errs, s.fail(ctx, "sweep", s.prefix, upload.Err))
			break
		}
		if s.isPutting(upload.Key) {
			continue
		}
		if err := s.client.AbortMultipartUpload(ctx, s.bucket, upload.Key, upload.UploadID); err != nil {
			errs = append(errs, s.fail(ctx, "sweep", upload.Key, err))
		}
	}
	return errors.Join(errs...)
}

// signed is what a server that repeats a request tells of who signed it.
var signed = regexp.MustCompile(`AWS4-HMAC-SHA256[^"<]*|(?i:X-Amz-(Credential|Signature|Security-Token))=[^&\s"<]*`)

// fail sorts an error of the client: what a caller can act on gets a code and
// a text for it, and the operator's text always has the server's answer.
func (s *Store) fail(ctx context.Context, op, key string, err error) error {
	answer := minio.ToErrorResponse(err)
	if told, ok := errors.AsType[minio.ErrorResponse](err); ok && !protection.Off(protection.StoreErrors) {
		told.Message = signed.ReplaceAllString(told.Message, "(what was signed with)")
		err = told
	}
	err = fmt.Errorf("%s %s in bucket %s at %s: %w", op, key, s.bucket, s.client.EndpointURL(), err)
	if _, ours := errors.AsType[sourceError](err); ours || ctx.Err() != nil {
		return err
	}
	switch answer.Code {
	case minio.NoSuchKey:
		return blob.NotFound(key, err)
	case minio.NoSuchBucket, "PermanentRedirect":
		return errdefs.Wrap(err, errdefs.Unavailable, "the blob store does not know its bucket: the daemon's operator must make it, or correct its name and region")
	case minio.AccessDenied, "InvalidAccessKeyId", "SignatureDoesNotMatch", "AuthorizationHeaderMalformed", minio.InvalidRegion,
		"ExpiredToken", "InvalidToken", "TokenRefreshRequired", "AllAccessDisabled", "AccountProblem",
		"XAdminUserNotFound": // the last is versitygw's
		return errdefs.Wrap(err, errdefs.Unavailable, "the blob store refuses the daemon's access key: its operator must correct the key, its secret or token, the region, or what the key may do")
	case minio.RequestTimeTooSkewed, "RequestExpired":
		return errdefs.Wrap(err, errdefs.Unavailable, "the blob store has another time than the daemon: its operator must set the host's clock")
	}
	if answer.Code == "" || answer.StatusCode >= http.StatusInternalServerError {
		return errdefs.Wrap(err, errdefs.Unavailable, "the blob store does not answer: try again later")
	}
	return errdefs.Wrap(err, errdefs.Unavailable, "the blob store refuses a request, as the daemon's log tells: try again later")
}
