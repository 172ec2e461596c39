package notify

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"os"
	"strings"
	"time"

	"weir/mail/nexthop"
)

// A post sends mail.
type post struct {
	Mail
	node   string
	client *nexthop.Client
}

func newPost(m Mail, env Env) (*post, error) {
	if m.From == "" {
		host, err := os.Hostname()
		if m.From = "weir@" + host; err != nil || !isAddress(m.From) {
			m.From = "weir@localhost"
		}
	}
	client, err := nexthop.New(m.NextHop, nexthop.Env{Clock: env.Clock, Log: env.Log})
	return &post{m, env.Node, client}, err
}

func (p *post) send(ctx context.Context, id string, now time.Time, all []Notice) error {
	text := p.write(id, now, all)
	job := &nexthop.Job{ID: id, Sender: p.From, Size: int64(len(text)),
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }}
	for _, to := range p.To {
		job.Recipients = append(job.Recipients, nexthop.Recipient{Address: to})
	}
	var refused []string
	for i, r := range p.client.Deliver(ctx, job) {
		if r.Outcome != nexthop.Done {
			said := r.Text
			if r.Code > 0 {
				said = fmt.Sprintf("%d %s", r.Code, r.Text)
			}
			refused = append(refused, p.To[i]+": "+said)
		}
	}
	// Whoever has it would have it again with each attempt: one who has it will do.
	if len(refused) == len(p.To) {
		return fmt.Errorf("%w: %s", ErrRefused, strings.Join(refused, "; "))
	}
	return nil
}

// write makes a message, with CRLF line ends and in ASCII.
func (p *post) write(id string, now time.Time, all []Notice) []byte {
	var b bytes.Buffer
	subject := all[0].Text
	if len(all) > 1 {
		subject = fmt.Sprintf("%d notices: %s", len(all), subject)
	}
	line := func(name, value string) { fmt.Fprintf(&b, "%s: %s\r\n", name, value) }
	line("From", "weir <"+p.From+">")
	line("To", strings.Join(p.To, ",\r\n "))
	line("Subject", fold(mime.QEncoding.Encode("utf-8", "[weir "+p.node+"] "+short(subject))))
	line("Date", now.Format(time.RFC1123Z))
	line("Message-ID", "<"+id+"@"+p.From[strings.LastIndexByte(p.From, '@')+1:]+">")
	line("Auto-Submitted", "auto-generated")
	line("MIME-Version", "1.0")
	line("Content-Type", "text/plain; charset=utf-8")
	line("Content-Transfer-Encoding", "quoted-printable")
	b.WriteString("\r\n")
	w := quotedprintable.NewWriter(&b)
	for _, n := range all {
		state := ""
		if n.Over {
			state = ", over"
		}
		fmt.Fprintf(w, "%s  %s%s\r\n%s\r\n\r\n", n.Time.UTC().Format("2006-01-02 15:04:05 UTC"), n.Event, state, n.Text)
	}
	fmt.Fprintf(w, "This is what weir on %s notices. \"weir status\" there shows more.\r\n", p.node)
	_ = w.Close()
	return b.Bytes()
}

// short cuts a subject.
func short(text string) string {
	if r := []rune(text); len(r) > 100 {
		return string(r[:100]) + "…"
	}
	return text
}

// fold breaks a header between encoded words.
func fold(value string) string { return strings.ReplaceAll(value, "?= =?", "?=\r\n =?") }

func (p *post) close(ctx context.Context) { _ = p.client.Close(ctx) } // what it was sending was tried
