package simulate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"weir"
	"weir/identify"
	"weir/internal/queue"
)

// Bounds on a log. What is beyond them is skipped, and counted.
const (
	MaxLogLine        = 1 << 20 // bytes
	MaxMailRecipients = 10_000  // of one mail
	MaxLogUsers       = 1_000_000
	MaxLogName        = identify.MaxRecipient // bytes, of a user or a recipient
	MaxLogFiles       = 1_000
	MaxLogOpen        = 100_000 // mails of a Postfix log whose end was not read yet
	maxLogHeld        = 1 << 20 // recipients of mails that wait to be put in order
)

// A LogFormat is how a log is written.
type LogFormat string

// The formats that are understood, each also compressed with gzip.
const (
	LogCSV     LogFormat = "csv"     // with the header time,user,recipients
	LogPostfix LogFormat = "postfix" // maillog
	LogJSON    LogFormat = "json"    // an object on each line
)

// What a log may be wrong with.
var (
	ErrLog     = errors.New("not a mail log")
	ErrNoMail  = errors.New("no mail in the log")
	ErrLogRead = errors.New("the log was read already")
)

const understood = "understood are CSV with the header time,user,recipients, Postfix's maillog, " +
	`and lines of JSON such as {"time":"2026-01-02T15:04:05Z","user":"ann","recipients":["bob@example.org"]}, each also compressed with gzip`

// LogOptions say how a log is to be read.
type LogOptions struct {
	// The format: csv, postfix or json. Default: what the files look like.
	Format LogFormat
	// The year in which the log begins, where its times have none. Default: by the time at which the file was changed
	// last.
	Year int
	// Networks whose clients are users of a Postfix log by their address, where they do not log in. Other mail without
	// a log-in comes from outside, and is skipped.
	Clients []netip.Prefix
	// Count mail that was handed in on the machine itself (sendmail), by the uid. Mail that a filter hands in again is
	// then counted twice.
	Local bool
}

// Validate returns every mistake in the options, as joined weir.FieldErrors.
func (o LogOptions) Validate() error {
	var v weir.Mistakes
	v.OneOf("format", string(o.Format), string(LogCSV), string(LogPostfix), string(LogJSON))
	if o.Year != 0 && (o.Year < 1970 || o.Year > 9998) {
		v.Add("year", fmt.Sprintf("%d is out of bounds", o.Year), "between 1970 and 9998")
	}
	for i, p := range o.Clients {
		if !p.IsValid() {
			v.Add(fmt.Sprintf("clients[%d]", i), "is not a network", "write 192.0.2.0/24")
		}
	}
	return v.Err()
}

// A Log is a mail log of one or several files. It is read once, by Entries. Only Progress may be called from other
// goroutines.
type Log struct {
	files  []*logFile // in order of time
	format LogFormat
	reader logReader
	lines  *logLines // of the file that is read

	sorted sorter
	users  map[string]struct{}

	info    LogInfo
	skipped [reasons]Reason
	limits  logLimits

	done, total atomic.Int64
	begun       bool
	closed      bool
}

// logLimits are the bounds, which tests make smaller.
type logLimits struct{ line, recipients, users, open, held int }

// A logReader reads the lines of one format. It gives mails to Log.mail, and says why it skips lines to Log.skip.
type logReader interface {
	// file begins a file.
	file(f *logFile)
	line(line []byte)
	// end is called when there are no more lines.
	end()
}

// Entries returns the mails of the log in order of time. An error ends them. A log without a mail ends with ErrNoMail,
// which says what was there instead.
func (l *Log) Entries() iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		switch {
		case l.closed:
			yield(Entry{}, os.ErrClosed)
			return
		case l.begun:
			yield(Entry{}, ErrLogRead)
			return
		}
		l.begun = true
		for _, f := range l.files {
			if more, err := l.read(f, yield); err != nil {
				yield(Entry{}, err)
				return
			} else if !more {
				return
			}
		}
		l.reader.end()
		if !l.yield(true, yield) {
			return
		}
		if l.info.Mails == 0 {
			yield(Entry{}, l.noMail())
		}
	}
}

// read gives the mails of one file. more is false when no more are wanted.
func (l *Log) read(f *logFile, yield func(Entry, error) bool) (more bool, err error) {
	if l.lines, err = f.open(&l.done, l.limits.line); err != nil {
		return false, err
	}
	defer f.close()
	l.reader.file(f)
	for {
		line, err := l.lines.next()
		switch {
		case l.closed:
			return false, os.ErrClosed
		case err == io.EOF:
			return true, nil
		case errors.Is(err, errLongLine):
			l.info.Lines++
			l.skip(longLine)
			continue
		case err != nil:
			return false, fmt.Errorf("%s, after line %d: %w", f.path, l.lines.number, err)
		}
		l.info.Lines++
		if len(bytes.TrimSpace(line)) == 0 {
			l.skip(emptyLine)
			continue
		}
		l.reader.line(line)
		if !l.yield(false, yield) {
			return false, nil
		}
	}
}

// yield gives the mails that are in order by now, or all.
func (l *Log) yield(all bool, yield func(Entry, error) bool) bool {
	for {
		e, line, ok := l.sorted.next(all)
		if !ok {
			return true
		}
		if _, known := l.users[e.User]; !known {
			if len(l.users) >= l.limits.users {
				l.skipAt(manyUsers, line)
				continue
			}
			l.users[e.User] = struct{}{}
			l.info.Users++
		}
		if l.info.Mails == 0 {
			l.info.From = e.At
		}
		l.info.Mails++
		l.info.To = e.At
		if !yield(e, nil) {
			return false
		}
	}
}

// mail takes a mail that was read, which began on a line.
func (l *Log) mail(e Entry, line int) {
	if !l.sorted.add(e, line) {
		l.skipAt(tooOld, line)
	}
}

// Info returns what the log was like as far as it was read.
func (l *Log) Info() LogInfo {
	info := l.info
	info.Reasons = nil
	for _, r := range l.skipped {
		if r.Lines > 0 {
			info.Reasons = append(info.Reasons, r)
			info.Skipped += r.Lines
		}
	}
	slices.SortStableFunc(info.Reasons, func(a, b Reason) int { return b.Lines - a.Lines })
	return info
}

// Progress returns how many bytes of the files were read, and how many there are; 0 where the files do not say.
func (l *Log) Progress() (done, total int64) {
	return min(l.done.Load(), l.total.Load()), l.total.Load()
}

// Close closes the files. It may be called more than once, and by who ranges over Entries.
func (l *Log) Close() error {
	l.closed = true
	var all []error
	for _, f := range l.files {
		all = append(all, f.close())
	}
	return errors.Join(all...)
}

// noMail says what was in a log without mail.
func (l *Log) noMail() error {
	info := l.Info()
	if len(info.Reasons) == 0 {
		return fmt.Errorf("%w: it has %d lines", ErrNoMail, info.Lines)
	}
	var all []string
	for _, r := range info.Reasons[:min(3, len(info.Reasons))] {
		all = append(all, fmt.Sprintf("%d are %s (the first is line %d)", r.Lines, r.Why, r.First))
	}
	return fmt.Errorf("%w: of %d lines %s", ErrNoMail, info.Lines, strings.Join(all, ", "))
}

// reason is why a line was skipped.
type reason int

const (
	used reason = iota
	longLine
	emptyLine
	noTime
	otherTime
	noUser
	noRecipients
	manyRecipients
	badName
	manyUsers
	tooOld
	badCSV
	badJSON
	otherLine
	refused
	outside
	local
	again
	nullSender
	ownMail
	unknownMail
	neverHanded
	gaveUp
	reasons
)

var why = [reasons]string{
	longLine:       fmt.Sprintf("longer than %d bytes", MaxLogLine),
	emptyLine:      "empty",
	noTime:         "without a time that can be read",
	otherTime:      "with a time of another kind than those before",
	noUser:         "without a user",
	noRecipients:   "without recipients",
	manyRecipients: fmt.Sprintf("of a mail to more than %d recipients", MaxMailRecipients),
	badName:        fmt.Sprintf("with a name longer than %d bytes, or that cannot be printed", MaxLogName),
	manyUsers:      fmt.Sprintf("of a user after the first %d", MaxLogUsers),
	tooOld:         fmt.Sprintf("more than %d minutes out of order", int(sortWithin/time.Minute)),
	badCSV:         "not CSV",
	badJSON:        "not JSON",
	otherLine:      "of no mail: connections, warnings, other programs",
	refused:        "of mail that Postfix refused",
	outside:        "of mail from outside: without a login, and from a client that is not a user",
	local:          "of mail handed in on the machine itself",
	again:          "of mail handed in again, by a filter or the server before",
	nullSender:     "of mail of a server without a sender",
	ownMail:        "of mail that Postfix wrote or forwarded itself",
	unknownMail:    "of mail whose acceptance is not in the log, or longer ago than it is looked for",
	neverHanded:    "of mail that was begun and never handed in",
	gaveUp:         fmt.Sprintf("of mail given up, with more than %d under way", MaxLogOpen),
}

func (l *Log) skip(r reason) { l.skipAt(r, l.info.Lines) }

func (l *Log) skipAt(r reason, line int) {
	s := &l.skipped[r]
	if s.Lines == 0 {
		s.Why, s.First = why[r], line
	}
	s.Lines++
	s.First = min(s.First, line)
}

// Bounds on mails that wait to be put in order.
const (
	sortWithin = 10 * time.Minute
	sortMails  = 10_000
)

// A sorter puts mails in order that are nearly so: it holds them until one comes that is sortWithin later, or it has
// too many. Mails of one time stay as they came. Make it with newSorter.
type sorter struct {
	waiting queue.Ranked[sorting]
	count   int       // mails so far
	held    int       // recipients
	most    int       // recipients that may be held
	newest  time.Time // of all mails so far
	given   time.Time // the latest that was given
}

type sorting struct {
	Entry
	line, number int
	place        int // among those that wait
}

func newSorter(most int) sorter {
	return sorter{most: most, waiting: queue.NewRanked((*sorting).before, func(s *sorting) *int { return &s.place })}
}

func (a *sorting) before(b *sorting) bool {
	if a.At.Equal(b.At) {
		return a.number < b.number
	}
	return a.At.Before(b.At)
}

// add takes a mail. It is refused where later ones were given already.
func (s *sorter) add(e Entry, line int) bool {
	if e.At.Before(s.given) && !s.given.IsZero() {
		return false
	}
	if e.At.After(s.newest) {
		s.newest = e.At
	}
	s.count++
	s.held += len(e.To)
	s.waiting.Add(&sorting{Entry: e, line: line, number: s.count})
	return true
}

// next gives the earliest mail, once nothing earlier is to be expected, or at once.
func (s *sorter) next(atOnce bool) (e Entry, line int, ok bool) {
	first := s.waiting.First()
	full := s.waiting.Len() > sortMails || s.held > s.most
	if first == nil || !atOnce && !full && s.newest.Sub(first.At) < sortWithin {
		return Entry{}, 0, false
	}
	s.waiting.Remove(first)
	s.held -= len(first.To)
	s.given = first.At
	return first.Entry, first.line, true
}
