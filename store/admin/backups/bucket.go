package backups

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"attestd/store"
)

// LockMode says whether backups in a bucket are locked against removal.
type LockMode string

const (
	LockAuto       LockMode = "auto" // governance if the bucket has object lock
	LockGovernance LockMode = "governance"
	LockCompliance LockMode = "compliance"
	LockOff        LockMode = "off"
)

// BucketOptions are those of OpenBucket.
type BucketOptions struct {
	Endpoint                           string // URL; "" for AWS
	Region                             string
	PathStyle                          bool // the bucket is in the path, and not in the host
	AllowHTTP                          bool // also to machines other than this one
	AccessKey, SecretKey, SessionToken string
	Roots                              *x509.CertPool // nil for the system's
	Lock                               LockMode
	LockFor                            time.Duration // from the beginning of a backup
	Now                                func() time.Time
}

// Bucket is a folder of a bucket of S3, or of a service with the same API.
type Bucket struct {
	client         *minio.Client
	bucket, prefix string
	options        BucketOptions
	// lock of what is written, which Check finds out
	lock minio.RetentionMode
}

// partSize is the size of a part of an upload, which is held in memory. S3 accepts at most 10,000
// parts, so those of a backup beyond 140 GB are larger.
const (
	partSize  = 16 << 20
	mostParts = 9000
)

// tries is the number of attempts at a request that a service refuses for now.
const tries = 4

// ParseBucket parses s3://bucket/prefix. Key is "" or ends in no slash.
func ParseBucket(address string) (bucket, key string, err error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "s3" || u.Host == "" || u.User != nil || u.Port() != "" || u.RawQuery != "" || u.Fragment != "" {
		return "", "", fmt.Errorf("%w: the address must look like s3://bucket/prefix, without credentials", store.ErrRefused)
	}
	key = strings.Trim(u.Path, "/")
	for part := range strings.SplitSeq(key, "/") {
		if part == "." || part == ".." || part == "" && key != "" {
			return "", "", fmt.Errorf("%w: the prefix of %s must not have parts that are empty or only dots", store.ErrRefused, "s3://"+u.Host)
		}
	}
	return u.Host, key, nil
}

// OpenBucket returns the place s3://bucket/prefix. It connects to nothing.
func OpenBucket(address string, o BucketOptions) (*Bucket, error) {
	bucket, prefix, err := ParseBucket(address)
	if err != nil {
		return nil, err
	}
	if o.Endpoint == "" {
		o.Endpoint = "https://s3.amazonaws.com"
	}
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, fmt.Errorf("%w: the endpoint must look like https://s3.example.com, without credentials and path", store.ErrRefused)
	}
	if ip, _ := netip.ParseAddr(u.Hostname()); u.Scheme == "http" && !o.AllowHTTP && u.Hostname() != "localhost" && !ip.IsLoopback() {
		return nil, fmt.Errorf("%w: backups go by plain http only to this machine; use https://%s", store.ErrRefused, u.Host)
	}
	if o.AccessKey == "" || o.SecretKey == "" {
		return nil, fmt.Errorf("%w: there are no credentials for %s: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or make ~/.aws/credentials",
			store.ErrRefused, address)
	}
	lookup := minio.BucketLookupAuto
	if o.PathStyle {
		lookup = minio.BucketLookupPath
	}
	client, err := minio.New(u.Host, &minio.Options{
		Creds:  credentials.NewStaticV4(o.AccessKey, o.SecretKey, o.SessionToken),
		Secure: u.Scheme == "https", Region: o.Region, BucketLookup: lookup, MaxRetries: tries,
		Transport: newTransport(o.Roots), TrailingHeaders: true,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrRefused, err)
	}
	client.SetAppInfo("attestd", "backup")
	if prefix != "" {
		prefix += "/"
	}
	return &Bucket{client: client, bucket: bucket, prefix: prefix, options: o}, nil
}

func (b *Bucket) String() string             { return "s3://" + b.bucket + "/" + b.prefix }
func (b *Bucket) Address(name string) string { return b.String() + name }
func (b *Bucket) Room() string               { return "" }

// failed adds the address to an error, and makes a missing object fs.ErrNotExist.
func (b *Bucket) failed(name string, err error) error {
	if err == nil {
		return nil
	}
	switch response := minio.ToErrorResponse(err); {
	case response.Code == minio.NoSuchKey || response.Code == "NoSuchVersion",
		response.StatusCode == http.StatusNotFound && response.Code != minio.NoSuchBucket:
		return fmt.Errorf("%s: %w", b.Address(name), fs.ErrNotExist)
	case response.Code == minio.NoSuchBucket:
		return fmt.Errorf("%w: there is no bucket s3://%s: make it, with object lock if backups are to be locked", store.ErrRefused, b.bucket)
	case response.StatusCode != 0:
		return fmt.Errorf("%s: status %d, %s: %w", b.Address(name), response.StatusCode, response.Code, err)
	}
	return fmt.Errorf("%s: %w", b.Address(name), err)
}

// Check finds out whether the bucket is there and has object lock.
func (b *Bucket) Check(ctx context.Context) error {
	is, err := b.client.BucketExists(ctx, b.bucket)
	if err == nil && !is {
		err = minio.ErrorResponse{StatusCode: http.StatusNotFound, Code: minio.NoSuchBucket}
	}
	if err != nil {
		return b.failed("", err)
	}
	if b.options.Lock == LockOff || b.options.Lock == "" {
		return nil
	}
	has, _, _, _, err := b.client.GetObjectLockConfig(ctx, b.bucket)
	switch code := minio.ToErrorResponse(err).Code; {
	case err == nil && has == "Enabled":
		b.lock = minio.Governance
		if b.options.Lock == LockCompliance {
			b.lock = minio.Compliance
		}
	case b.options.Lock != LockAuto && err != nil:
		return fmt.Errorf("object lock of s3://%s is required and cannot be seen: %w", b.bucket, b.failed("", err))
	case b.options.Lock != LockAuto:
		return fmt.Errorf("%w: s3://%s has no object lock, which --backup-lock requires", store.ErrRefused, b.bucket)
	case err == nil, code == "ObjectLockConfigurationNotFoundError", code == "NotImplemented", code == "NoSuchObjectLockConfiguration",
		code == "AccessDenied", code == "MethodNotAllowed":
		// the bucket has no object lock, or does not reveal it
	default:
		return b.failed("", err)
	}
	return nil
}

// maxListed bounds a list, which the service may make endless.
const maxListed = 100_000

func (b *Bucket) List(ctx context.Context) (names []string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listed := 0
	for o := range b.client.ListObjectsIter(ctx, b.bucket, minio.ListObjectsOptions{Prefix: b.prefix}) {
		if o.Err != nil {
			return nil, b.failed("", o.Err)
		}
		if listed++; listed > maxListed {
			return nil, fmt.Errorf("%w: there are more than %d files in %s: give the backups a prefix of their own", store.ErrRefused, maxListed, b)
		}
		if name, isHere := strings.CutPrefix(o.Key, b.prefix); isHere && name != "" && !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	return names, ctx.Err()
}

func (b *Bucket) Write(ctx context.Context, name string, r io.Reader, size int64) (s Stored, err error) {
	o := minio.PutObjectOptions{ContentType: "application/octet-stream", NumThreads: 1, SendContentMd5: b.lock != ""}
	if b.lock != "" {
		// one second more, for S3 stores whole seconds
		s.Lock, s.RetainUntil = strings.ToLower(string(b.lock)), b.options.Now().UTC().Add(b.options.LockFor+time.Second).Truncate(time.Second)
		o.Mode, o.RetainUntilDate = b.lock, s.RetainUntil
	}
	// The request body is held in memory, so that it can be sent again.
	o.PartSize = uint64(max(partSize, size/mostParts))
	start, err := io.ReadAll(io.LimitReader(r, partSize))
	if err != nil {
		return s, err
	}
	counted, length := &counter{r: io.MultiReader(bytes.NewReader(start), r)}, int64(-1)
	body := io.Reader(counted)
	if len(start) < partSize {
		body, length, counted.n = bytes.NewReader(start), int64(len(start)), int64(len(start))
	}
	info, err := b.client.PutObject(ctx, b.bucket, b.prefix+name, body, length, o)
	if err == nil && info.Size != counted.n {
		err = fmt.Errorf("%w: the service has stored %d of %d bytes", store.ErrUnavailable, info.Size, counted.n)
	}
	s.Version = info.VersionID
	if err == nil && b.lock != "" {
		err = b.checkLock(ctx, name, s)
	}
	return s, b.failed(name, err)
}

// checkLock asks the service for the retention of an object.
func (b *Bucket) checkLock(ctx context.Context, name string, s Stored) error {
	info, err := b.client.StatObject(ctx, b.bucket, b.prefix+name, minio.StatObjectOptions{VersionID: s.Version})
	if err != nil {
		return fmt.Errorf("its retention cannot be seen: %w", err)
	}
	mode := info.Headers.Get("X-Amz-Object-Lock-Mode")
	until, err := time.Parse(time.RFC3339, info.Headers.Get("X-Amz-Object-Lock-Retain-Until-Date"))
	if mode == "" || err != nil { // some services say it only when they are asked for it
		found, end, err := b.client.GetObjectRetention(ctx, b.bucket, b.prefix+name, s.Version)
		if err != nil {
			return fmt.Errorf("its retention cannot be seen: %w", err)
		}
		if found != nil && end != nil {
			mode, until = string(*found), *end
		}
	}
	if !strings.EqualFold(mode, s.Lock) || until.Before(s.RetainUntil.Add(-time.Second)) {
		return fmt.Errorf("%w: the service has not set the retention until %s that was asked for", store.ErrUnavailable,
			s.RetainUntil.Format(time.RFC3339))
	}
	return nil
}

func (b *Bucket) Finish(context.Context, string) error { return nil }

func (b *Bucket) Read(ctx context.Context, name, version string) (io.ReadCloser, error) {
	o, err := b.client.GetObject(ctx, b.bucket, b.prefix+name, minio.GetObjectOptions{VersionID: version})
	if err == nil {
		_, err = o.Stat()
		if err != nil {
			o.Close()
		}
	}
	if err != nil {
		return nil, b.failed(name, err)
	}
	return o, nil
}

func (b *Bucket) Size(ctx context.Context, name, version string) (int64, error) {
	info, err := b.client.StatObject(ctx, b.bucket, b.prefix+name, minio.StatObjectOptions{VersionID: version})
	return info.Size, b.failed(name, err)
}

// Remove removes a version of an object, the newest if none is named, so that a bucket with
// versions does not store old versions for ever.
func (b *Bucket) Remove(ctx context.Context, name, version string) error {
	if version == "" {
		info, err := b.client.StatObject(ctx, b.bucket, b.prefix+name, minio.StatObjectOptions{})
		if err = b.failed(name, err); errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		version = info.VersionID
	}
	err := b.failed(name, b.client.RemoveObject(ctx, b.bucket, b.prefix+name, minio.RemoveObjectOptions{VersionID: version}))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Sweep removes the parts of uploads that were begun long ago. Others may still be under way.
func (b *Bucket) Sweep(ctx context.Context, now time.Time, isOurs func(string) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	left, listed := map[string]bool{}, 0
	for u := range b.client.ListIncompleteUploads(ctx, b.bucket, b.prefix, false) {
		if u.Err != nil {
			if code := minio.ToErrorResponse(u.Err).Code; code == "NotImplemented" || code == "MethodNotAllowed" {
				return nil
			}
			return b.failed("", u.Err)
		}
		if listed++; listed > maxListed {
			break // the next sweep finds the rest
		}
		name, isHere := strings.CutPrefix(u.Key, b.prefix)
		if isHere && isOurs(strings.TrimSuffix(name, manifestSuffix)) && now.Sub(u.Initiated) > abandoned {
			left[u.Key] = true
		}
	}
	var err error
	for key := range left {
		err = errors.Join(err, b.failed("", b.client.RemoveIncompleteUpload(ctx, b.bucket, key)))
	}
	return err
}
