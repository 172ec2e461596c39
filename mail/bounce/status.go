package bounce

import (
	"cmp"
	"fmt"
	"strings"

	"weir/internal/shown"
)

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
	parts := strings.Split(status, ".")
	if len(parts) != 3 || !strings.Contains("245", parts[0]) || len(parts[0]) != 1 {
		return words[k].status
	}
	for _, n := range parts[1:] {
		if len(n) < 1 || len(n) > 3 || strings.Trim(n, "0123456789") != "" {
			return words[k].status
		}
	}
	return status
}

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
