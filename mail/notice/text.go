package notice

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Mark stands above the text of a notice. However a mail program quotes, what is below it was not written by the user.
const Mark = "write above this line"

func (n *Notice) subject() string {
	user, host := clean(n.User, maxName), clean(n.Host, maxName)
	switch n.Kind {
	case Stopped:
		return fmt.Sprintf("Your mail is on hold: %s at %s", user, host)
	case Delayed:
		return fmt.Sprintf("Your mail is delayed: %s at %s", user, host)
	case Review:
		return fmt.Sprintf("A mail of yours is held for review: %s at %s", user, host)
	case Barred:
		return fmt.Sprintf("Your account was stopped: %s at %s", user, host)
	case Flagged:
		return fmt.Sprintf("Your mail goes to many new people: %s at %s", user, host)
	case AdminFlagged:
		return fmt.Sprintf("Flagged: %s at %s writes to many new people", user, host)
	case Admin:
		return fmt.Sprintf("Stopped: %s at %s, %s waiting", user, host, count(n.Waiting, "recipient"))
	}
	subject := cite(n.Subject, maxSubject)
	if subject == "" {
		return "Your answer about your mail on hold"
	}
	if len(subject) >= 3 && strings.EqualFold(subject[:3], "re:") {
		return subject
	}
	return "Re: " + subject
}

func (n *Notice) body() string {
	l := &lines{}
	if n.ReplyTo != "" {
		l.line("---- To act by mail, " + Mark + " ----")
		l.line("")
	}
	switch n.Kind {
	case Stopped:
		n.stopped(l)
	case Delayed:
		n.delayed(l)
	case Admin:
		n.admin(l)
	case Answer:
		n.answer(l)
	case Review:
		n.review(l)
	case Barred:
		n.barred(l)
	case Flagged:
		n.flagged(l)
	case AdminFlagged:
		n.adminFlagged(l)
	}
	n.list(l)
	n.ways(l)
	return l.b.String()
}

func (n *Notice) stopped(l *lines) {
	l.fill("", "",
		fmt.Sprintf("Your account %s at %s has sent mail to many new addresses in a short time. That is how it looks "+
			"when somebody "+
			"has stolen a password, so the server has stopped sending your mail.", quoted(n.User),
			clean(n.Host, maxName)))
	l.line("")
	l.fill("", "",
		fmt.Sprintf("Nothing is lost. %s with %s %s kept, and you decide what happens next. Until you do, the server "+
			"takes no "+
			"new mail from this account.", count(n.letters(), "mail"), count(n.Waiting, "recipient"),
			isAre(n.letters())))
	l.line("")
	l.fill("", "",
		"IF YOU DID NOT WRITE THESE MAILS, somebody has your password. Change it at once, on a computer that you "+
			"trust, then delete "+
			"the mails, and only then let your account send again. Tell those who run your mail.")
	l.line("")
	l.fill("", "", "If you did write them, release them. They leave at once.")
	l.line("")
}

func (n *Notice) delayed(l *lines) {
	l.fill("", "",
		fmt.Sprintf("Your account %s at %s has sent mail to many new addresses in a short time. The server now sends "+
			"it slowly, to one "+
			"recipient after the other: %s waiting.", quoted(n.User), clean(n.Host, maxName),
			countIs(n.Waiting, "recipient")))
	l.line("")
	text := "Nothing is lost, and you need not do anything: your mail arrives, a little later."
	if n.Limit > 0 {
		text += fmt.Sprintf(" If more than %s wait, the server stops sending for this account and asks you.",
			count(n.Limit, "recipient"))
	}
	l.fill("", "", text)
	l.line("")
	l.fill("", "",
		"IF YOU DID NOT WRITE THESE MAILS, somebody has your password. Change it at once, on a computer that you "+
			"trust, and delete the "+
			"mails. Tell those who run your mail.")
	l.line("")
}

func (n *Notice) review(l *lines) {
	text := fmt.Sprintf("Your account %s at %s has sent a mail to so many people at once that it is held until "+
		"somebody has looked at it.",
		quoted(n.User), clean(n.Host, maxName))
	if n.Limit > 0 {
		text += fmt.Sprintf(" More than %s may not wait.", count(n.Limit, "recipient"))
	}
	l.fill("", "", text)
	l.line("")
	l.fill("", "",
		"Nothing is lost, and your other mail goes on. The mail leaves when you release it, or those who run the "+
			"mail server do.")
	l.line("")
	l.fill("", "",
		"IF YOU DID NOT WRITE IT, somebody has your password. Change it at once, on a computer that you trust, and "+
			"delete the mail. Tell "+
			"those who run your mail.")
	l.line("")
}

func (n *Notice) barred(l *lines) {
	l.fill("", "",
		fmt.Sprintf("Those who run the mail server have stopped your account %s at %s: it takes no new mail from you.",
			quoted(n.User), clean(n.Host, maxName)))
	l.line("")
	if n.Text != "" {
		l.fill("", "", "They write: "+clean(n.Text, 1000))
		l.line("")
	}
	l.fill("", "", "Only they can let it send again. Please ask them.")
	l.line("")
}

func (n *Notice) flagged(l *lines) {
	l.fill("", "",
		fmt.Sprintf("Your account %s at %s has written to many people it never wrote to before, in a short time. "+
			"That is how it looks "+
			"when somebody has stolen a password, so the server is careful with it until there are fewer of them again.", quoted(n.User), clean(n.Host, maxName)))
	l.line("")
	if n.letters() > 0 {
		l.fill("", "",
			fmt.Sprintf("Nothing is lost. %s with %s %s kept until you release them, or those who run the mail "+
				"server do. Mail to people you "+
				"have written to before goes on.", count(n.letters(), "mail"), count(n.Waiting, "recipient"),
				isAre(n.letters())))
	} else {
		l.fill("", "", "Mail that the server does not take, your mail program tells you.")
	}
	l.line("")
	l.fill("", "",
		"IF YOU DID NOT WRITE TO THEM, somebody has your password. Change it at once, on a computer that you trust, "+
			"and delete the mails. "+
			"Tell those who run your mail.")
	l.line("")
}

func (n *Notice) adminFlagged(l *lines) {
	l.fill("", "",
		fmt.Sprintf("The account %s at %s is flagged: it writes to many people it never wrote to. Perhaps somebody "+
			"has stolen the password; "+
			"ask the user before you release anything.", quoted(n.User), clean(n.Host, maxName)))
	l.line("")
	if n.Text != "" {
		l.fill("", "", "Why: "+clean(n.Text, 1000)+".")
		l.line("")
	}
	if name := n.User; isWord(name) {
		l.line("On the server:")
		l.line("")
		for _, c := range []string{"weir reach show " + name, "weir queue list", "weir user passwd " + name,
			"weir reach clear " + name} {
			l.line("    " + c)
		}
		l.line("")
	}
}

func (n *Notice) admin(l *lines) {
	text := fmt.Sprintf("The account %s at %s is stopped: %s waiting", quoted(n.User), clean(n.Host, maxName),
		countIs(n.Waiting, "recipient"))
	if n.Limit > 0 {
		text += fmt.Sprintf(", and %d may", n.Limit)
	}
	l.fill("", "", text+
		". Its mail is kept, new mail from it is refused, and the user was told where a contact is known. Perhaps "+
		"somebody has stolen the password; ask the user before you release anything.")
	l.line("")
	if n.Text != "" {
		l.fill("", "", "Why: "+clean(n.Text, 1000))
		l.line("")
	}
	if name := n.User; isWord(name) {
		l.line("On the server:")
		l.line("")
		for _, c := range []string{"weir queue list", "weir user passwd " + name, "weir user resume " + name} {
			l.line("    " + c)
		}
		l.line("")
	}
}

func (n *Notice) answer(l *lines) {
	shown := 0
	for text := range strings.SplitSeq(strings.ReplaceAll(n.Text, "\r\n", "\n"), "\n") {
		if shown++; shown > maxText {
			l.line("…")
			break
		}
		l.fill("", "", clean(text, 1000))
	}
	l.line("")
}

// letters is how many mails are kept, listed or not.
func (n *Notice) letters() int { return len(n.Letters) + max(n.More, 0) }

func (n *Notice) list(l *lines) {
	if n.letters() == 0 {
		return
	}
	l.line("What is waiting:")
	l.line("")
	shown := n.Letters[:min(len(n.Letters), MaxLines)]
	for i, m := range shown {
		about := clock(m.At, n.Now) + ", " + size(m.Size)
		if n.Kind == Admin || n.Kind == AdminFlagged {
			about += ", " + m.ID.String()
		}
		number := fmt.Sprintf("%3d. ", i+1)
		indent := strings.Repeat(" ", len(number))
		l.line(number + about)
		l.line(indent + "To: " + recipients(m.To)) // never broken: no line begins with words from a mail
		l.line(indent + "Subject: " + cmp.Or(cite(m.Subject, maxSubject), "(none)"))
	}
	if more := n.letters() - len(shown); more > 0 {
		l.line(fmt.Sprintf("     and %s more that %s not listed here", count(more, "mail"), isAre(more)))
	}
	l.line("")
}

func (n *Notice) ways(l *lines) {
	until := ""
	if !n.Until.IsZero() {
		until = ", until " + clock(n.Until, n.Now)
	}
	if n.Link != "" {
		l.line("On the web page" + until + ":")
		l.line("")
		l.line("    " + n.Link)
		l.line("")
	}
	if n.ReplyTo == "" {
		if n.Link == "" && (n.Kind == Stopped || n.Kind == Delayed || n.Kind == Review || n.Kind == Flagged &&
			n.letters() > 0) {
			l.fill("", "", "Those who run the mail server can release the mails, or delete them.")
		}
		return
	}
	l.fill("", "", "By mail, once"+until+
		": answer this mail, and write one or more of these at the very top, each on a line of its own.")
	l.line("")
	for _, w := range n.commands() {
		l.line(fmt.Sprintf("    %-14s %s", w[0], w[1]))
	}
	l.line("")
	l.fill("", "", "Do not pass this mail on: whoever has it can do the same.")
}

// commands returns examples that make sense for what is listed.
func (n *Notice) commands() (all [][2]string) {
	add := func(command, does string) { all = append(all, [2]string{command, "(" + does + ")"}) }
	listed, several := min(len(n.Letters), MaxLines), n.letters() > 1
	if several {
		add("release all", "sends all of them")
	}
	switch {
	case listed > 2:
		add("release 1 3", "sends mails 1 and 3")
	case listed > 0:
		add("release 1", "sends mail 1")
	}
	if listed > 0 {
		which := strconv.Itoa(min(listed, 2))
		add("delete "+which, "throws mail "+which+" away")
	}
	if several {
		add("delete all", "throws all of them away")
	}
	if n.Kind == Stopped || n.Kind == Answer {
		add("resume", "lets the account send again")
	}
	return all
}

func recipients(to []string) string {
	var names []string
	for _, a := range to[:min(len(to), maxShown)] {
		names = append(names, cite(a, maxAddress))
	}
	text := strings.Join(names, ", ")
	if more := len(to) - maxShown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// quoted sets a name apart from the words around it.
func quoted(name string) string { return `"` + cite(name, maxName) + `"` }

// isWord reports whether a name can be typed into a shell as it is.
func isWord(name string) bool {
	return name != "" && len(name) <= maxName && name[0] != '-' && strings.IndexFunc(name, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			strings.ContainsRune("@._+-", c))
	}) < 0
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func countIs(n int, what string) string { return count(n, what) + " " + isAre(n) }

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func clock(t, now time.Time) string { return t.In(now.Location()).Format("Mon, 2 Jan 2006 15:04 MST") }

func size(n int64) string {
	switch {
	case n < 1000:
		return count(int(max(n, 0)), "byte")
	case n < 1_000_000:
		return fmt.Sprintf("%d KB", n/1000)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1_000_000)
}
