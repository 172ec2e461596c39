package simulate

import (
	"bytes"
	"net/netip"
	"time"
)

// A postfixLine is one line of a maillog that is about a mail:
//
//	Jan  2 15:04:05 mx postfix/smtpd[12]: 4XyZ12bcd: client=a[192.0.2.7], sasl_method=PLAIN, sasl_username=ann
type postfixLine struct {
	at     time.Time
	daemon []byte // smtpd
	id     []byte // of the mail in the queue
	text   []byte // behind the id
}

// readPostfix reads a line, or returns why it is skipped. What it returns is part of the line.
func readPostfix(c *clock, line []byte) (p postfixLine, r reason) {
	at, rest, ok := c.read(line)
	if !ok {
		if len(bytes.TrimSpace(line)) == 0 {
			return p, emptyLine
		}
		return p, noTime
	}
	p.at = at
	_, rest, _ = bytes.Cut(rest, []byte(" ")) // the host
	tag, text, ok := bytes.Cut(rest, []byte(": "))
	if pid := bytes.IndexByte(tag, '['); pid >= 0 {
		tag = tag[:pid]
	}
	slash := bytes.LastIndexByte(tag, '/')
	if !ok || slash < 0 || bytes.IndexByte(tag, ' ') >= 0 {
		return p, otherLine
	}
	p.daemon = tag[slash+1:]
	id, text, ok := bytes.Cut(text, []byte(": "))
	if ok && string(id) == "NOQUEUE" {
		return p, refused
	}
	if !ok || !isQueueID(id) {
		return p, otherLine
	}
	p.id, p.text = id, text
	return p, used
}

// isQueueID tells an id from words such as warning: short ids are hexadecimal, long ones have no vowels.
func isQueueID(id []byte) bool {
	if len(id) < 5 || len(id) > 32 {
		return false
	}
	hex, long := true, len(id) >= 10
	for _, c := range id {
		digit := isDigit(c)
		hex = hex && (digit || c >= 'A' && c <= 'F')
		long = long && (digit || c|0x20 >= 'b' && c|0x20 <= 'z' && bytes.IndexByte([]byte("eiou"), c|0x20) < 0)
	}
	return hex || long
}

// field returns the value of a field of a list such as "client=a[192.0.2.7], sasl_method=PLAIN", or nil.
func field(text []byte, name string) []byte {
	for len(text) > 0 {
		one, rest, _ := bytes.Cut(text, []byte(", "))
		if len(one) > len(name) && one[len(name)] == '=' && string(one[:len(name)]) == name {
			return one[len(name)+1:]
		}
		text = rest
	}
	return nil
}

// clientAddr returns the address in "host.example.net[192.0.2.7]:25".
func clientAddr(client []byte) netip.Addr {
	_, rest, _ := bytes.Cut(client, []byte("["))
	text, _, _ := bytes.Cut(rest, []byte("]"))
	addr, _ := netip.ParseAddr(string(bytes.TrimPrefix(text, []byte("IPv6:"))))
	return addr
}

// address returns what stands between name=< and >, which may have commas in it.
func address(text []byte, name string) (addr []byte, found bool) {
	for {
		at := bytes.Index(text, []byte(name))
		if at < 0 {
			return nil, false
		}
		text = text[at+len(name):]
		if len(text) > 1 && text[0] == '=' && text[1] == '<' {
			break
		}
	}
	text = text[2:]
	end := bytes.Index(text, []byte(">,"))
	if end < 0 {
		end = bytes.IndexByte(text, '>')
	}
	if end < 0 {
		return nil, false
	}
	return text[:end], true
}

// queuedAs returns the id by which the next server has a mail, if it is a Postfix.
func queuedAs(text []byte) (id []byte, ok bool) {
	_, rest, found := bytes.Cut(text, []byte("queued as "))
	if !found {
		return nil, false
	}
	n := 0
	for n < len(rest) && (isDigit(rest[n]) || rest[n]|0x20 >= 'a' && rest[n]|0x20 <= 'z') {
		n++
	}
	return rest[:n], isQueueID(rest[:n])
}
