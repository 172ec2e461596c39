package simulate

import (
	"bytes"
	"cmp"
	"net/netip"
	"slices"
	"time"

	"weir/identify"
)

// joinWithin is how long after the acceptance of a mail the log is searched for its recipients. A delivery that is
// tried later was also tried before.
const joinWithin = time.Hour

// A joiner makes mails of the lines of a maillog: one for each time that Postfix accepted one, with that time and all
// recipients that later lines name. Mails are given in order of acceptance, each after its last line (removed), or
// joinWithin later.
//
// A content filter hands a mail in a second time, under another id. The line that says so ("queued as") comes before
// the first mail is removed, and therefore before the second is given: it is then left out.
type joiner struct {
	log     *Log
	clock   clock
	clients identify.Ranges[bool]
	local   bool

	queue []*joined // in order of acceptance
	byID  map[string]*joined
	held  int // recipients in the queue
	now   time.Time
}

// joined is a mail whose lines are joined.
type joined struct {
	id     string
	at     time.Time
	line   int // of the acceptance
	user   string
	server bool     // the user is known by address
	why    reason   // it is skipped
	to     []string // each once
	seen   map[string]struct{}
	queued bool // Postfix has it in full
	done   bool // it has no more lines
}

// manyJoined is from how many recipients on a mail has a map of them.
const manyJoined = 32

func newJoiner(l *Log, o LogOptions) *joiner {
	j := &joiner{log: l, local: o.Local, byID: map[string]*joined{}}
	for _, p := range o.Clients {
		j.clients.Add(p, true)
	}
	return j
}

// file begins a file: its times go on from where those of the one before ended, by its own year.
func (j *joiner) file(f *logFile) { j.clock = clock{year: cmp.Or(f.year, f.changed.Year())} }

func (j *joiner) line(line []byte) {
	p, r := readPostfix(&j.clock, line)
	if p.at.After(j.now) {
		j.now = p.at
		j.give(false)
	}
	if r != used {
		j.log.skip(r)
		return
	}
	m := j.byID[string(p.id)]
	switch string(p.daemon) {
	case "smtpd":
		if begins(p.text, "client=") {
			m = j.accepted(p)
		}
	case "pickup":
		if uid, ok := bytes.CutPrefix(p.text, []byte("uid=")); ok {
			m = j.begin(p)
			j.pickedUp(m, uid)
		}
	case "cleanup":
		if m == nil { // handed in by nobody
			m = j.begin(p)
			m.why = ownMail
		}
	}
	if m == nil {
		j.log.skip(unknownMail)
		return
	}
	delivery := begins(p.text, "to=<") && bytes.Contains(p.text, []byte("status="))
	switch {
	case string(p.text) == "removed":
		m.done = true
	case m.why != used:
	case delivery:
		j.recipient(m, p.text)
	default:
		j.told(m, p)
	}
	if id, ok := queuedAs(p.text); ok && delivery {
		j.again(m, id)
	}
	if m.why != used {
		j.log.skip(m.why)
	}
	j.give(false)
}

// begin makes a mail of an id. One that had the id before has no more lines.
func (j *joiner) begin(p postfixLine) *joined {
	if before := j.byID[string(p.id)]; before != nil {
		before.done = true
	}
	m := &joined{id: string(p.id), at: p.at, line: j.log.info.Lines}
	j.byID[m.id] = m
	j.queue = append(j.queue, m)
	return m
}

// accepted begins a mail that a client hands in.
func (j *joiner) accepted(p postfixLine) *joined {
	m := j.begin(p)
	client := clientAddr(field(p.text, "client"))
	var ok bool
	if first := j.byID[string(field(p.text, "orig_queue_id"))]; first != nil && first != m {
		m.why = again
	} else if user := field(p.text, "sasl_username"); len(user) > 0 {
		if m.user, ok = nameOf(user); !ok {
			m.why = badName
		}
	} else if _, listed := j.clients.Find(client); listed {
		m.user, m.server = identify.AddressUser(client), true
	} else if client.IsLoopback() || client == (netip.Addr{}) {
		m.why = local
	} else {
		m.why = outside
	}
	return m
}

// pickedUp finds the user of a mail that was handed in on the machine: "1000 from=<ann>".
func (j *joiner) pickedUp(m *joined, text []byte) {
	uid, _, _ := bytes.Cut(text, []byte(" "))
	if !j.local || len(uid) == 0 || len(uid) > 10 || len(bytes.Trim(uid, "0123456789")) > 0 {
		m.why = local
		return
	}
	m.user, _ = nameOf(append([]byte("uid "), uid...))
	m.server = true
}

// told reads what a line says of a mail, beside its recipients.
func (j *joiner) told(m *joined, p postfixLine) {
	switch {
	case begins(p.text, "from=<"):
		m.queued = true
		if m.server && begins(p.text, "from=<>") {
			m.why = nullSender
		}
	case string(p.daemon) == "cleanup" && !m.queued &&
		begins(p.text, "reject: ", "milter-reject: ", "discard: ", "milter-discard: "):
		m.why, m.done = refused, true
	}
}

func begins(text []byte, with ...string) bool {
	return slices.ContainsFunc(with, func(one string) bool {
		return len(text) >= len(one) && string(text[:len(one)]) == one
	})
}

// again leaves out a mail that is the same as another one, later on its way.
func (j *joiner) again(first *joined, id []byte) {
	m := j.byID[string(id)]
	if m == nil || m == first {
		return
	}
	if m.why == used {
		j.log.skipAt(again, m.line)
	}
	if m.why == used || m.why == local {
		m.why = again
	}
}

// recipient adds the one of a line, as the sender wrote it.
func (j *joiner) recipient(m *joined, text []byte) {
	m.queued = true
	fields, _, _ := bytes.Cut(text, []byte(", relay="))
	to, ok := address(fields, "orig_to")
	if !ok {
		if to, ok = address(fields, "to"); !ok {
			return
		}
	}
	name, ok := nameOf(to)
	switch {
	case !ok:
		m.why = badName
		return
	case name == "" || m.seen == nil && slices.Contains(m.to, name):
		return
	}
	if m.seen != nil {
		if _, twice := m.seen[name]; twice {
			return
		}
		m.seen[name] = struct{}{}
	}
	if len(m.to) >= j.log.limits.recipients {
		m.why = manyRecipients
		return
	}
	m.to = append(m.to, name)
	j.held++
	if len(m.to) == manyJoined {
		m.seen = make(map[string]struct{}, 2*manyJoined)
		for _, one := range m.to {
			m.seen[one] = struct{}{}
		}
	}
}

// give gives the mails at the front that are complete or whose time is over, and as many more as exceed the bounds.
func (j *joiner) give(all bool) {
	for len(j.queue) > 0 {
		m := j.queue[0]
		full := len(j.queue) > j.log.limits.open || j.held > j.log.limits.held
		if !all && !full && !m.done && j.now.Sub(m.at) < joinWithin {
			return
		}
		j.queue[0] = nil
		j.queue = j.queue[1:]
		if j.byID[m.id] == m {
			delete(j.byID, m.id)
		}
		j.held -= len(m.to)
		switch {
		case m.why != used: // its lines were counted
		case full && len(m.to) == 0:
			j.log.skipAt(gaveUp, m.line)
		case !m.queued:
			j.log.skipAt(neverHanded, m.line)
		case len(m.to) == 0:
			j.log.skipAt(noRecipients, m.line)
		default:
			j.log.mail(Entry{At: m.at, User: m.user, To: m.to}, m.line)
		}
	}
}

func (j *joiner) end() { j.give(true) }

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
