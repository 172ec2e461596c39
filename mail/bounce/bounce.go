// Package bounce writes delivery status notifications (RFC 3464). They tell the sender of a message that it could not
// be delivered, is not delivered yet, or went to a server that does not report what becomes of it.
package bounce

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"weir/internal/shown"
)

// A Kind is what a notification tells.
type Kind uint8

// The kinds.
const (
	Failure Kind = iota // it could not be delivered, and will not be tried again
	Delay               // it could not be delivered so far, and is tried again
	Relayed             // it was handed to a server that will not report
)

// A Report is what a notification is about. Write cleans and cuts everything in it.
type Report struct {
	Kind       Kind
	From       string // header From: the mail system
	Host       string // this server's name
	To         string // the sender of the message
	ID         string // of the message
	MessageID  string // of the notification, without angle brackets; empty: a random one
	Now        time.Time
	Arrived    time.Time
	Until      time.Time // Delay: until when it is tried
	Envelope   string    // ENVID, decoded
	Return     string    // FULL, HDRS or empty (headers)
	UTF8       bool      // the message was SMTPUTF8
	Recipients []Recipient
	Original   io.Reader // the message; FULL returns all of it up to MaxOriginal, and else its header
	Size       int64     // of the message; 0: unknown, and it is read first
}

// A Recipient is one that the message was not delivered to.
type Recipient struct {
	Address  string
	Original string // ORCPT with its type, decoded
	Status   string // 5.1.1
	Code     int    // of the reply; 0: no server replied
	Text     string // what the server said
	Server   string
	Last     time.Time // attempt
}

// Bounds.
const (
	MaxOriginal = 1 << 20  // bytes of a message that is returned
	MaxHeader   = 64 << 10 // bytes of a header that is returned alone

	maxListed  = 50  // recipients that the text for people names
	maxText    = 500 // characters of what a server said
	maxAddress = 320 // characters of an address
	maxName    = 255 // characters of a server's name, and of ids
)

// Errors of Write.
var (
	ErrNobody  = errors.New("bounce: nobody to tell") // a message without a sender is never answered
	ErrNothing = errors.New("bounce: nothing to tell")
)

// Write writes the notification as a message, with CRLF line ends. It needs SMTPUTF8 only if the address in To does
// (RFC 6533). Otherwise it is in ASCII, so that every server takes it. The one exception is a message with bytes over
// 127 and without SMTPUTF8 that is returned in full.
func Write(w io.Writer, r *Report) error { return write(w, r, random()) }

// write takes the boundary, which must be random so that the original cannot contain it.
func write(w io.Writer, r *Report, boundary string) error {
	switch {
	case r.To == "" || r.To == "<>":
		return ErrNobody
	case len(r.Recipients) == 0 || r.Kind > Relayed:
		return ErrNothing
	}
	o, err := readOriginal(r)
	if err != nil {
		return err
	}
	p := &printer{w: w, utf8: !shown.ASCII(r.To)}
	o.coded = o.eight && !p.utf8 && (r.UTF8 || !o.full)
	o.global = p.utf8 || o.coded && r.UTF8
	p.head(r, boundary, o)
	p.delimiter(boundary)
	p.people(r, o)
	p.delimiter(boundary)
	p.status(r)
	p.delimiter(boundary)
	p.original(o)
	p.line("")
	p.line("--" + boundary + "--")
	return p.err
}

var words = [...]struct{ action, status, subject, people string }{
	Failure: {"failed", "5.0.0", "Your mail could not be delivered",
		"Your mail could not be delivered to the recipients below. It is not tried again."},
	Delay: {"delayed", "4.0.0", "Your mail is not delivered yet",
		"Your mail could not be delivered to the recipients below so far. You need not do anything: it is tried again."},
	Relayed: {"relayed", "2.0.0", "Your mail was handed on",
		"Your mail was handed on for the recipients below, to a server that does not tell whether it arrives."},
}

func (p *printer) head(r *Report, boundary string, o *original) {
	p.field("From", "Mail Delivery System "+p.mailbox(cmp.Or(r.From, "MAILER-DAEMON"), r.Host))
	p.field("To", p.mailbox(r.To, r.Host))
	p.field("Subject", words[r.Kind].subject)
	p.field("Date", r.Now.Format(date))
	p.field("Message-ID", "<"+messageID(r)+">")
	p.field("Auto-Submitted", "auto-replied")
	p.field("MIME-Version", "1.0")
	p.field("Content-Type", "multipart/report; report-type=delivery-status; boundary=\""+boundary+"\"")
	encoding := "7bit"
	if p.utf8 || o.encoding() == "8bit" {
		encoding = "8bit"
	}
	p.field("Content-Transfer-Encoding", encoding)
	p.line("")
	p.line("This is a delivery status notification in MIME format.")
}

func (p *printer) people(r *Report, o *original) {
	p.field("Content-Description", "Notification")
	switch wide := func(to Recipient) bool { return !shown.ASCII(to.Address) || !shown.ASCII(to.Text) }; {
	case p.utf8:
		p.field("Content-Type", "text/plain; charset=utf-8")
		p.field("Content-Transfer-Encoding", "8bit")
	case slices.ContainsFunc(r.Recipients, wide):
		p.field("Content-Type", "text/plain; charset=utf-8")
		p.field("Content-Transfer-Encoding", "quoted-printable")
		defer p.coded()()
	default:
		p.field("Content-Type", "text/plain; charset=us-ascii")
	}
	p.line("")
	p.paragraph("", "This is the mail server "+p.clean(r.Host, maxName)+".")
	p.line("")
	p.paragraph("", words[r.Kind].people)
	if r.Kind == Delay && !r.Until.IsZero() {
		p.paragraph("", "The last attempt is at "+r.Until.Format(date)+".")
	}
	for _, to := range r.Recipients[:min(len(r.Recipients), maxListed)] {
		p.line("")
		p.paragraph("  ", "<"+p.clean(to.Address, maxAddress)+">")
		if said := p.said(&to); said != "" {
			who := "This server says"
			if to.Code > 0 {
				who = "The server says"
				if server := p.clean(to.Server, maxName); server != "" {
					who = "The server " + server + " says"
				}
			}
			p.paragraph("    ", who+": "+said)
		}
	}
	if more := len(r.Recipients) - maxListed; more > 0 {
		p.line("")
		p.paragraph("  ", fmt.Sprintf("and %d more, who are named in the attached report.", more))
	}
	p.line("")
	returned := "Your mail is attached."
	if !o.full {
		returned = "The header of your mail is attached."
	}
	if id := p.clean(r.ID, maxName); id != "" {
		returned += " If you ask for help, name its number here: " + id + "."
	}
	p.paragraph("", returned)
}

func (p *printer) original(o *original) {
	what, kind := "Header of your mail", "text/rfc822-headers"
	switch {
	case o.full && o.global:
		what, kind = "Your mail", "message/global"
	case o.full:
		what, kind = "Your mail", "message/rfc822"
	case o.global:
		kind = "message/global-headers"
	}
	p.field("Content-Description", what)
	p.field("Content-Type", kind)
	p.field("Content-Transfer-Encoding", o.encoding())
	p.line("")
	if o.coded {
		defer p.coded()()
	}
	if p.err == nil {
		_, p.err = io.Copy(p.w, o)
	}
}

// status writes the part for programs (RFC 3464 section 2).
func (p *printer) status(r *Report) {
	p.field("Content-Description", "Delivery report")
	if p.utf8 {
		p.field("Content-Type", "message/global-delivery-status")
		p.field("Content-Transfer-Encoding", "8bit")
	} else {
		p.field("Content-Type", "message/delivery-status")
	}
	p.line("")
	if id := p.clean(r.Envelope, maxName); id != "" {
		p.field("Original-Envelope-Id", id)
	}
	p.field("Reporting-MTA", "dns; "+cmp.Or(p.name(r.Host), "unknown"))
	if id := p.clean(r.ID, maxName); id != "" {
		p.field("X-Weir-ID", id)
	}
	if !r.Arrived.IsZero() {
		p.field("Arrival-Date", r.Arrived.Format(date))
	}
	for _, to := range r.Recipients {
		p.line("")
		p.recipient(r, &to)
	}
}

func (p *printer) recipient(r *Report, to *Recipient) {
	kind, address, _ := strings.Cut(to.Original, ";")
	if kind = p.name(kind); kind != "" && p.clean(address, maxAddress) != "" {
		p.field("Original-Recipient", p.typed(kind, address))
	}
	p.field("Final-Recipient", p.typed("rfc822", to.Address))
	p.field("Action", words[r.Kind].action)
	p.field("Status", enhanced(to.Status, r.Kind))
	if server := p.name(to.Server); server != "" {
		p.field("Remote-MTA", "dns; "+server)
	}
	if said := p.said(to); said != "" {
		kind := "x-weir"
		if to.Code > 0 {
			kind = "smtp"
		}
		p.field("Diagnostic-Code", kind+"; "+said)
	}
	if !to.Last.IsZero() {
		p.field("Last-Attempt-Date", to.Last.Format(date))
	}
	if r.Kind == Delay && !r.Until.IsZero() {
		p.field("Will-Retry-Until", r.Until.Format(date))
	}
}

func (p *printer) said(to *Recipient) string {
	text := p.clean(to.Text, maxText)
	if to.Code <= 0 {
		return text
	}
	said := fmt.Sprintf("%03d", to.Code%1000)
	if status := enhanced(to.Status, Failure); status == to.Status && !strings.HasPrefix(text, status) {
		said += " " + status
	}
	return strings.TrimSpace(said + " " + text)
}

// enhanced returns a status (RFC 3463), or that of the kind if it is none.
func enhanced(status string, k Kind) string {
	if !statusForm.MatchString(status) {
		return words[k].status
	}
	return status
}

var statusForm = regexp.MustCompile(`^[245]\.\d{1,3}\.\d{1,3}$`)

// typed writes an address with its type: utf-8 for characters over 127, in ASCII if necessary (RFC 6533 section 3).
func (p *printer) typed(kind, address string) string {
	plain := shown.Line(address, maxAddress, "")
	if shown.ASCII(plain) {
		return kind + "; " + plain
	}
	if p.utf8 {
		return "utf-8; " + plain
	}
	var b strings.Builder
	for _, c := range plain {
		if c < 128 && c != '\\' && c != '+' && c != '=' {
			b.WriteRune(c)
		} else {
			fmt.Fprintf(&b, `\x{%X}`, c)
		}
	}
	return "utf-8; " + b.String()
}
