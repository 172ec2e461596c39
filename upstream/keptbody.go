package upstream

import (
	"io"
	"net/http"
	"sync"
)

// A keptBody is the body of a request that can be sent more than once, as long as it is small. Nothing is read ahead:
// what a try reads from the client is kept for the next one. Each try has a reader of its own, as the sender of a try
// that has failed may still be reading.
type keptBody struct {
	pool *Pool
	most int

	reads sync.Mutex // held while the client is read from

	mu    sync.Mutex
	src   io.ReadCloser
	kept  []byte // from the beginning on
	total int64  // bytes that were read from the client
	end   error  // of the source
	try   int    // whose reader goes on
	lost  bool   // what was read is not kept: there is no other try
	final bool   // there is no other try, so that nothing needs to be kept
	shut  bool   // the reader of the last try is closed
	held  int    // bytes that the pool counts
}

// firstKept is how much memory a body takes at first.
const firstKept = 4 << 10

// keep prepares the body of a request for more than one try. One that is known to be too large is left alone.
func (t *tries) keep(r *http.Request) {
	if most := int64(t.pool.opts.Retries.Body); r.ContentLength <= most {
		t.kept = &keptBody{pool: t.pool, src: r.Body, most: int(most)}
	}
}

// renew gives the try under way a request with a body of its own, if the body is kept.
func (t *tries) renew(k *Call) {
	if t.kept == nil {
		return
	}
	out := new(http.Request)
	*out = *k.Request
	out.Body = &keptReader{body: t.kept, try: t.kept.try}
	k.Request = out
}

// again ends the try under way. It reports whether all that it has read is there for another one.
func (k *keptBody) again() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lost {
		return false
	}
	k.try++
	k.shut = false
	return true
}

// release frees what was kept when no other try will need it. The one under way goes on.
func (t *tries) release() {
	if k := t.kept; k != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.final = true
		if k.try == 0 || k.shut { // the first reader is never behind
			k.free()
		}
		if k.shut {
			_ = k.src.Close()
		}
	}
}

// drop ends the body: no try will read it.
func (t *tries) drop() {
	if k := t.kept; k != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.final = true
		k.try++
		k.free()
		_ = k.src.Close()
	}
}

// free gives the memory back. k.mu is held.
func (k *keptBody) free() {
	k.pool.kept.Add(-int64(k.held))
	k.kept, k.held, k.lost = nil, 0, true
}

// room makes room for more, and returns how much there is; 0 if what comes next cannot be kept. k.mu is held.
func (k *keptBody) room() int {
	switch {
	case k.lost || len(k.kept) >= k.most:
		return 0
	case len(k.kept) < cap(k.kept):
		return cap(k.kept) - len(k.kept)
	}
	size := min(max(2*cap(k.kept), firstKept), k.most)
	if !k.take(size - k.held) {
		k.pool.env.Observer.Bounded(BoundBodies)
		k.free()
		return 0
	}
	larger := make([]byte, len(k.kept), size)
	copy(larger, k.kept)
	k.kept = larger
	return size - len(larger)
}

// take counts so many bytes more, if the pool has room for them.
func (k *keptBody) take(more int) bool {
	if k.pool.kept.Add(int64(more)) > int64(k.pool.opts.Retries.Bodies) {
		k.pool.kept.Add(-int64(more))
		return false
	}
	k.held += more
	return true
}

// A keptReader is the body as one try reads it.
type keptReader struct {
	body *keptBody
	try  int
	at   int64
}

func (r *keptReader) Read(p []byte) (int, error) {
	k := r.body
	if n, ok, err := r.fromKept(p); ok {
		return n, err
	}
	k.reads.Lock()
	defer k.reads.Unlock()
	// A try before may have read meanwhile.
	if n, ok, err := r.fromKept(p); ok {
		return n, err
	}
	k.mu.Lock()
	if k.try != r.try || k.lost && r.at != k.total {
		k.mu.Unlock()
		return 0, errCalledOff
	}
	if k.final { // no try before reads any more: it would read for this one
		k.free()
	}
	room := k.room()
	k.mu.Unlock()
	if room > 0 {
		p = p[:min(len(p), room)]
	}
	n, err := k.src.Read(p)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.total += int64(n)
	k.end = err
	stale := k.try != r.try
	switch {
	case k.lost || n == 0:
	case len(k.kept)+n <= k.most || stale:
		// If another try has begun meanwhile, it needs these bytes, whatever the bound: they are one piece at most.
		k.kept = append(k.kept, p[:n]...)
	default:
		k.free() // it is larger than what is kept
	}
	if stale {
		return 0, errCalledOff
	}
	r.at += int64(n)
	return n, err
}

// fromKept reads what was read before. It reports false if more must be read from the client.
func (r *keptReader) fromKept(p []byte) (n int, ok bool, err error) {
	k := r.body
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.try != r.try:
		return 0, true, errCalledOff
	case len(p) == 0:
		return 0, true, nil
	case !k.lost && r.at < int64(len(k.kept)):
		n := copy(p, k.kept[r.at:])
		if r.at += int64(n); r.at < int64(len(k.kept)) {
			return n, true, nil
		}
		return n, true, k.end
	case k.end != nil:
		return 0, true, k.end
	}
	return 0, false, nil
}

func (r *keptReader) Close() error {
	k := r.body
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.try != r.try {
		return nil
	}
	if k.shut = true; k.final {
		k.free()
		return k.src.Close()
	}
	return nil
}
