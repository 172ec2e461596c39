package demo

import (
	"bufio"
	"fmt"
	"io"
	"mime/quotedprintable"
	"net/mail"
	"regexp"
	"strconv"
	"strings"
)

// A notification is a mail of weir's to an owner, as they read it.
type notification struct {
	answer  bool // to what the owner wrote; otherwise it says that the account is stopped
	subject string
	replyTo string
	link    string   // to their page
	held    []string // the subjects of what is held, numbered from 1
}

var (
	heldNumber  = regexp.MustCompile(`^ *([0-9]+)\. `)
	heldSubject = regexp.MustCompile(`^ +Subject: (.*)$`)
)

// readNotification reads a mail to an owner; nil for one that needs no action.
func readNotification(m *mail.Message) *notification {
	n := &notification{subject: m.Header.Get("Subject"), answer: m.Header.Get("Auto-Submitted") == "auto-replied"}
	if n.answer {
		return n
	}
	reply, err := mail.ParseAddress(m.Header.Get("Reply-To"))
	if err != nil || !strings.Contains(n.subject, "on hold") {
		return nil
	}
	n.replyTo = reply.Address
	body := m.Body
	if m.Header.Get("Content-Transfer-Encoding") == "quoted-printable" {
		body = quotedprintable.NewReader(body)
	}
	lines := bufio.NewScanner(io.LimitReader(body, maxLetter))
	for lines.Scan() {
		line := lines.Text()
		switch bare := strings.TrimSpace(line); {
		case strings.HasPrefix(bare, "http://"):
			n.link = bare
		case heldNumber.MatchString(line):
			n.held = append(n.held, "")
		case heldSubject.MatchString(line) && len(n.held) > 0:
			n.held[len(n.held)-1] = heldSubject.FindStringSubmatch(line)[1]
		}
	}
	return n
}

// commands returns what the owner answers: their own mails are released, and all the rest deleted.
func (n *notification) commands(mine map[string]bool) []string {
	var release, remove []int
	for i, subject := range n.held {
		if mine[subject] {
			release = append(release, i+1)
		} else {
			remove = append(remove, i+1)
		}
	}
	var all []string
	if len(release) > 0 {
		all = append(all, "release "+ranges(release))
	}
	if len(remove) > 0 {
		all = append(all, "delete "+ranges(remove))
	}
	return append(all, "resume")
}

// ranges writes numbers, which are in order, as people do: 1-3 5.
func ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		part := strconv.Itoa(numbers[i])
		if j > i {
			part = fmt.Sprintf("%d-%d", numbers[i], numbers[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, " ")
}
