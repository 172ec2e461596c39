package stamp

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash"
)

var lineEnd = []byte("\r\n")

// BodyID is what the stamps of a mail are bound to besides the recipient: a digest of the body. A changed space makes
// another one; line ends and empty lines at the end do not, as sendmail and SMTP change them (RFC 6376 section 3.4.3).
// The header is not part of it: each server on the way adds to it.
func BodyID(body []byte) string {
	d := NewBodyDigest()
	_, _ = d.Write(body)
	return d.ID()
}

// A BodyDigest makes the BodyID of a body that comes in pieces. It is for one goroutine; make it with NewBodyDigest.
type BodyDigest struct {
	hash    hash.Hash
	empty   int  // line ends that count only when something follows them
	inLine  bool // the line under way has something in it
	cr      bool // the last byte was a CR, which is a part of the line unless LF follows
	written bool
}

// NewBodyDigest returns the digest of nothing yet.
func NewBodyDigest() *BodyDigest { return &BodyDigest{hash: sha256.New()} }

// Write takes the next piece. It never fails.
func (d *BodyDigest) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if d.cr {
			d.cr = false
			if p[0] != '\n' {
				d.put([]byte{'\r'})
			}
		}
		end := bytes.IndexByte(p, '\n')
		line := p
		if end >= 0 {
			line = p[:end]
		}
		if bytes.HasSuffix(line, []byte{'\r'}) {
			line = line[:len(line)-1]
			d.cr = end < 0
		}
		d.put(line)
		if end < 0 {
			break
		}
		d.endLine()
		p = p[end+1:]
	}
	return n, nil
}

// put adds to the line under way.
func (d *BodyDigest) put(part []byte) {
	if len(part) == 0 {
		return
	}
	for ; d.empty > 0; d.empty-- {
		d.hash.Write(lineEnd)
	}
	d.hash.Write(part)
	d.inLine = true
}

func (d *BodyDigest) endLine() {
	if !d.inLine {
		d.empty++
		return
	}
	d.hash.Write(lineEnd)
	d.inLine, d.written = false, true
}

// ID returns the BodyID of what was written. Nothing may be written after it.
func (d *BodyDigest) ID() string {
	if d.inLine {
		d.endLine()
	}
	if !d.written {
		d.hash.Write(lineEnd)
	}
	return "sha256:" + hex.EncodeToString(d.hash.Sum(nil))
}

// TakeMail takes the stamps out of the header of a mail, whose lines end with CRLF or LF. It returns their values, at
// most MaxMailStamps, and the header without stamp fields. A header without stamps is returned as it is.
func TakeMail(header []byte) (stamps []string, rest []byte) {
	var kept []byte
	from, taking := 0, false
	for at := 0; at < len(header); {
		end := len(header)
		if i := bytes.IndexByte(header[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		line := header[at:end]
		if line[0] == ' ' || line[0] == '\t' {
			if taking && len(stamps) > 0 && len(stamps) <= MaxMailStamps {
				stamps[len(stamps)-1] = join(stamps[len(stamps)-1], line)
			}
		} else {
			value, is := stampField(line)
			switch {
			case is && !taking:
				kept = append(kept, header[from:at]...)
			case !is && taking:
				from = at
			}
			if taking = is; is {
				stamps = append(stamps[:min(len(stamps), MaxMailStamps)], join("", value))
			}
		}
		at = end
	}
	switch {
	case taking:
		rest = kept
	case len(stamps) == 0:
		rest = header
	default:
		rest = append(kept, header[from:]...)
	}
	return stamps[:min(len(stamps), MaxMailStamps)], rest
}

// stampField returns the value of a line that begins a stamp's field. Old software puts a space before the colon.
func stampField(line []byte) (value []byte, is bool) {
	if len(line) < len(MailHeader) || !bytes.EqualFold(line[:len(MailHeader)], []byte(MailHeader)) {
		return nil, false
	}
	return bytes.CutPrefix(bytes.TrimLeft(line[len(MailHeader):], " \t"), []byte(":"))
}

// join adds a line to a folded value. A value that is longer than any stamp is cut, and still is not a stamp.
func join(value string, line []byte) string {
	if left := MaxMailStamp + 1 - len(value); left > 0 {
		more := UnfoldMailHeader(string(line[:min(len(line), 4*MaxMailStamp)]))
		value += more[:min(len(more), left)]
	}
	return value
}
