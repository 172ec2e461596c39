package nexthop

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// Bounds of replies. A line has 512 bytes by RFC 5321 section 4.5.3.1.5.
const (
	maxReplyLine  = 4096
	maxReplyLines = 128
	maxReplyText  = 512 // bytes that are kept of all lines together
)

// A reply of a server. Its text is overwritten by the next one of the connection.
type reply struct {
	code   int
	text   []byte // in one line, without code and status
	status [maxStatus]byte
	length int // of the status; 0 where there is none
}

var statusForm = regexp.MustCompile(`^[2-5]\.\d{1,3}\.\d{1,3}$`)

// maxStatus is the length of the longest enhanced code: 5.123.456.
const maxStatus = 9

var errReply = errors.New("the server does not follow the protocol")

// readReply reads a reply of one or several lines, using buf for its text. It calls each, unless that is nil, with each
// line but the first.
func readReply(r *bufio.Reader, buf []byte, each func(line []byte)) (reply, error) {
	var all reply
	all.text = buf[:0]
	for n := 0; ; n++ {
		if n == maxReplyLines {
			return all, fmt.Errorf("%w: a reply of more than %d lines", errReply, maxReplyLines)
		}
		line, err := r.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull) || err == nil && len(line) > maxReplyLine:
			return all, fmt.Errorf("%w: a line of more than %d bytes", errReply, maxReplyLine)
		case errors.Is(err, io.EOF) && len(line) > 0:
			return all, io.ErrUnexpectedEOF
		case err != nil:
			return all, err
		}
		line = bytes.TrimSuffix(line[:len(line)-1], []byte("\r"))
		code, more, text, ok := parseReplyLine(line)
		if !ok || n > 0 && code != all.code {
			return all, fmt.Errorf("%w: %.64q", errReply, line)
		}
		if n > 0 && each != nil {
			each(text)
		}
		status, text := cutStatus(code, text)
		if n == 0 {
			all.code = code
			all.length = copy(all.status[:], status)
		}
		all.add(text)
		if !more {
			return all, nil
		}
	}
}

// parseReplyLine parses a line such as 250-PIPELINING.
func parseReplyLine(line []byte) (code int, more bool, text []byte, ok bool) {
	code, err := strconv.Atoi(string(line[:min(len(line), 3)]))
	switch {
	case err != nil || code < 200 || code > 599 || len(line) > 3 && line[3] != ' ' && line[3] != '-':
		return 0, false, nil, false
	case len(line) == 3:
		return code, false, nil, true
	}
	return code, line[3] == '-', line[4:], true
}

// cutStatus cuts the enhanced code (RFC 2034) off a text, unless it contradicts the code of the reply.
func cutStatus(code int, text []byte) (status, rest []byte) {
	word, rest, _ := bytes.Cut(text, []byte(" "))
	if !statusForm.Match(word) || int(word[0]-'0') != code/100 {
		return nil, text
	}
	return word, rest
}

// add appends the text of a further line, up to the bound.
func (r *reply) add(text []byte) {
	if len(r.text) > 0 && len(text) > 0 && len(r.text) < maxReplyText {
		r.text = append(r.text, ' ')
	}
	for _, c := range text[:min(len(text), maxReplyText-len(r.text))] {
		if c < ' ' || c == 0x7f {
			c = ' '
		}
		r.text = append(r.text, c)
	}
}

func (r *reply) class() int { return r.code / 100 }

func (r *reply) result(server string) Result {
	res := Result{Code: r.code, Status: string(r.status[:r.length]), Text: strings.ToValidUTF8(string(r.text), "?"),
		Server: server}
	switch r.class() {
	case 2:
		res.Outcome = Done
	case 5:
		res.Outcome = Failed
	default:
		res.Outcome = Later
	}
	if res.Status == "" {
		res.Status = [...]string{"4.5.0", "4.5.0", "2.0.0", "4.5.0", "4.0.0", "5.0.0"}[r.class()]
	}
	return res
}
