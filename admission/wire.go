package admission

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"weir/farm"
)

// errMessage is what is wrong with a message of another node.
var errMessage = errors.New("no message about a waiting room that this version knows: bring all nodes to one version")

// Messages begin with a version and what they are about. A kind that is not known is ignored, and so is what follows
// the fields that are: a later release may say more.
const (
	wireVersion = 1

	kindReport = 1
	kindLine   = 2
	kindVisits = 3
	kindAway   = 4

	lineBytes   = 1 + 8 + 8 + 8 + 1
	visitBytes  = 8 + 8 + 4 + 8
	awayBytes   = 8 + 1 + 1
	reportFixed = 1 + 7*8
)

// maxPlaces bounds the figures of a report.
const maxPlaces = 1 << 30

// A report is how a node stands, as it tells the others.
type report struct {
	turn     uint64  // later ones are higher
	whole    bool    // it ends a snapshot: this node has told all it knows
	learnt   bool    // limit and base are worth something
	asked    float64 // places that those in the lanes need: what the load is made of
	outside  float64 // and those who were turned away
	wants    float64 // places that it could use now: what the capacity is divided by
	used     int     // places in use
	held     int     // people called from the waiting room who wait for a place
	ahead    int     // how many of them it could let in until they next show up
	waiting  int     // requests held
	capacity int     // of all nodes together, as far as this one knows; less while it looks
	delay    int64   // of those who paid
	number   uint64  // the last one given
	limit    float64 // learnt
	base     float64
}

func (r *report) append(b []byte) []byte {
	var flags byte
	if r.whole {
		flags |= 1
	}
	if r.learnt {
		flags |= 2
	}
	b = append(b, wireVersion, kindReport, flags)
	for _, n := range [...]uint64{r.turn, r.number, math.Float64bits(r.asked), math.Float64bits(r.wants),
		math.Float64bits(r.limit), math.Float64bits(r.base), math.Float64bits(r.outside)} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	for _, n := range [...]int{r.used, r.held, r.ahead, r.waiting, r.capacity, int(r.delay)} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

func parseReport(b []byte) (r report, err error) {
	if len(b) < reportFixed {
		return r, errMessage
	}
	r.whole, r.learnt = b[0]&1 != 0, b[0]&2 != 0
	var words [7]uint64
	for i := range words {
		words[i] = binary.BigEndian.Uint64(b[1+8*i:])
	}
	r.turn, r.number = words[0], words[1]
	for i, into := range [...]*float64{&r.asked, &r.wants, &r.limit, &r.base, &r.outside} {
		*into = math.Float64frombits(words[2+i])
		least, most := 0.0, float64(maxPlaces)
		switch into {
		case &r.base: // a time
			most = math.MaxInt64
		case &r.outside:
			least = -maxPlaces
		}
		if !(*into >= least && *into <= most) { // not a number is wrong, too
			return r, errMessage
		}
	}
	b = b[reportFixed:]
	var delay int
	for _, field := range [...]struct {
		into *int
		most uint64
	}{{&r.used, MaxConcurrent}, {&r.held, MaxWaiting}, {&r.ahead, MaxLine}, {&r.waiting, 2 * MaxWaiting},
		{&r.capacity, MaxConcurrent}, {&delay, math.MaxInt64 / 2}} {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			return r, errMessage
		}
		*field.into = int(min(n, field.most)) // lanes that retire let in any number
		b = b[size:]
	}
	r.delay = int64(delay)
	return r, nil
}

// An awayNote says that a client was turned away, or has come in since.
type awayNote struct {
	client client
	in     bool
}

func (n *awayNote) append(b []byte) []byte {
	b = append(binary.BigEndian.AppendUint64(b, n.client.id), n.client.family)
	if n.in {
		return append(b, 1)
	}
	return append(b, 0)
}

// parseAway reads awayBytes.
func parseAway(b []byte) (n awayNote, err error) {
	n = awayNote{client{binary.BigEndian.Uint64(b), b[8]}, b[9] == 1}
	if n.client.family != 4 && n.client.family != 6 || b[9] > 1 {
		return n, errMessage
	}
	return n, nil
}

// What happened to a number in line.
const (
	lineSeen   = 1 // it was shown
	lineCalled = 2
	lineLeft   = 3 // it was taken out, as its holder is held now
)

// A step is something that happened to a number in line.
type step struct {
	what   byte
	number uint64
	at     int64
	client client
}

func (s *step) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(append(b, s.what), s.number)
	b = binary.BigEndian.AppendUint64(b, uint64(s.at))
	return append(binary.BigEndian.AppendUint64(b, s.client.id), s.client.family)
}

// parseStep reads lineBytes.
func parseStep(b []byte) (s step, err error) {
	s = step{what: b[0], number: binary.BigEndian.Uint64(b[1:]), at: int64(binary.BigEndian.Uint64(b[9:])),
		client: client{binary.BigEndian.Uint64(b[17:]), b[25]}}
	if s.number == 0 || s.at < 0 || s.what < lineSeen || s.what > lineLeft {
		return s, errMessage
	}
	switch s.client.family {
	case 4, 6:
	case 0:
		s.client.id = 0
	default:
		return s, errMessage
	}
	return s, nil
}

// appendLine begins a message about the line. Times in it are by the clock that says sent: how long ago something was
// counts, and no clock has to be right for that.
func appendLine(b []byte, sent int64) []byte {
	return binary.BigEndian.AppendUint64(append(b, wireVersion, kindLine), uint64(sent))
}

// parseSent reads when a message was sent, and returns what to add to its times where it is now at.
func parseSent(b []byte, at int64) (shift int64, rest []byte, err error) {
	if len(b) < 8 {
		return 0, nil, errMessage
	}
	sent := int64(binary.BigEndian.Uint64(b))
	if sent < 0 {
		return 0, nil, errMessage
	}
	return at - sent, b[8:], nil
}

// appendVisits begins a message about tickets that were used at a node.
func appendVisits(b []byte, sent int64, at farm.Node) []byte {
	b = binary.BigEndian.AppendUint64(append(b, wireVersion, kindVisits), uint64(sent))
	return binary.BigEndian.AppendUint64(append(append(b, byte(len(at.Name))), at.Name...), at.Boot)
}

// parseVisits reads what follows parseSent.
func parseVisits(b []byte) (at farm.Node, rest []byte, err error) {
	if len(b) < 1 || len(b) < 1+int(b[0])+8 || b[0] == 0 || b[0] > farm.MaxNode {
		return at, nil, errMessage
	}
	n := 1 + int(b[0])
	at = farm.Node{Name: string(b[1:n]), Boot: binary.BigEndian.Uint64(b[n:])}
	if rest = b[n+8:]; len(rest)%visitBytes != 0 {
		return at, nil, fmt.Errorf("%w: %d bytes are not whole visits", errMessage, len(rest))
	}
	return at, rest, nil
}

func (v *visit) append(b []byte, number uint64) []byte {
	b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, number), uint64(v.until))
	b = binary.BigEndian.AppendUint32(b, uint32(v.uses))
	return binary.BigEndian.AppendUint64(b, v.turn)
}

// parseVisit reads visitBytes.
func parseVisit(b []byte) (number uint64, v visit) {
	return binary.BigEndian.Uint64(b), visit{until: int64(binary.BigEndian.Uint64(b[8:])),
		uses: int(binary.BigEndian.Uint32(b[16:])), turn: binary.BigEndian.Uint64(b[20:])}
}
