package notice

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Mark is above the text of a notice. However a mail program quotes, the user did not write what is below it.
const Mark = "write above this line"

// subjects are formats for the user and the host.
var subjects = map[Kind]string{
	Stopped:      "Your mail is on hold: %s at %s",
	Delayed:      "Your mail is delayed: %s at %s",
	Review:       "A mail of yours is held for review: %s at %s",
	Barred:       "Your account was stopped: %s at %s",
	Flagged:      "Your mail goes to many new people: %s at %s",
	AdminFlagged: "Flagged: %s at %s writes to many new people",
	Admin:        "Stopped: %s at %s",
}

func (n *Notice) subject() string {
	if n.Kind != Answer {
		text := fmt.Sprintf(subjects[n.Kind], clean(n.User, maxName), clean(n.Host, maxName))
		if n.Kind == Admin {
			text += ", " + count(n.Waiting, "recipient") + " waiting"
		}
		return text
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

var bodies = map[Kind]func(*Notice, *lines){
	Stopped: (*Notice).stopped, Delayed: (*Notice).delayed, Admin: (*Notice).admin, Answer: (*Notice).answer,
	Review: (*Notice).review, Barred: (*Notice).barred, Flagged: (*Notice).flagged,
	AdminFlagged: (*Notice).adminFlagged,
}

func (n *Notice) body() string {
	l := &lines{}
	if n.ReplyTo != "" {
		l.line("---- To act by mail, " + Mark + " ----")
		l.line("")
	}
	bodies[n.Kind](n, l)
	n.list(l)
	n.ways(l)
	return l.b.String()
}

func (l *lines) paragraph(format string, args ...any) {
	l.fill("", "", fmt.Sprintf(format, args...))
	l.line("")
}

// account names the user and the host.
func (n *Notice) account() string {
	return `"` + cite(n.User, maxName) + `" at ` + clean(n.Host, maxName)
}

func (n *Notice) kept() string {
	return fmt.Sprintf("Nothing is lost. %s with %s %s kept", count(n.held(), "message"), count(n.Waiting, "recipient"),
		isAre(n.held()))
}

func (n *Notice) stopped(l *lines) {
	l.paragraph("Your account %s has sent mail to many new addresses in a short time. That is how it looks when "+
		"somebody has stolen a password, so the server has stopped sending your mail.", n.account())
	l.paragraph("%s, and you decide what happens next. Until you do, the server takes no new mail from this account.",
		n.kept())
	l.paragraph("IF YOU DID NOT WRITE THESE MESSAGES, somebody has your password. Change it at once, on a computer that " +
		"you trust, then delete the messages, and only then let your account send again. Tell those who run your mail.")
	l.paragraph("If you did write them, release them. They leave at once.")
}

func (n *Notice) delayed(l *lines) {
	l.paragraph("Your account %s has sent mail to many new addresses in a short time. The server now sends it slowly, "+
		"to one recipient after the other: %s waiting.", n.account(), countIs(n.Waiting, "recipient"))
	limit := ""
	if n.Limit > 0 {
		limit = fmt.Sprintf(" If more than %s wait, the server stops sending for this account and asks you.",
			count(n.Limit, "recipient"))
	}
	l.paragraph("Nothing is lost, and you need not do anything: your mail arrives, a little later.%s", limit)
	l.paragraph("IF YOU DID NOT WRITE THESE MESSAGES, somebody has your password. Change it at once, on a computer that " +
		"you trust, and delete the messages. Tell those who run your mail.")
}

func (n *Notice) review(l *lines) {
	limit := ""
	if n.Limit > 0 {
		limit = fmt.Sprintf(" More than %s may not wait.", count(n.Limit, "recipient"))
	}
	l.paragraph("Your account %s has sent a message to so many people at once that it is held until somebody has looked "+
		"at it.%s", n.account(), limit)
	l.paragraph("Nothing is lost, and your other mail goes on. The mail leaves when you release it, or those who run " +
		"the mail server do.")
	l.paragraph("IF YOU DID NOT WRITE IT, somebody has your password. Change it at once, on a computer that you trust, " +
		"and delete the mail. Tell those who run your mail.")
}

func (n *Notice) barred(l *lines) {
	l.paragraph("Those who run the mail server have stopped your account %s: it takes no new mail from you.",
		n.account())
	if n.Text != "" {
		l.paragraph("They write: %s", clean(n.Text, 1000))
	}
	l.paragraph("Only they can let it send again. Please ask them.")
}

func (n *Notice) flagged(l *lines) {
	l.paragraph("Your account %s has written to many people it never wrote to before, in a short time. That is how it "+
		"looks when somebody has stolen a password, so the server is careful with it until there are fewer of them "+
		"again.", n.account())
	if n.held() > 0 {
		l.paragraph("%s until you release them, or those who run the mail server do. Mail to people you have written "+
			"to before goes on.", n.kept())
	} else {
		l.paragraph("If the server refuses a message, your mail program tells you.")
	}
	l.paragraph("IF YOU DID NOT WRITE TO THEM, somebody has your password. Change it at once, on a computer that you " +
		"trust, and delete the messages. Tell those who run your mail.")
}

func (n *Notice) adminFlagged(l *lines) {
	l.paragraph("The account %s is flagged: it writes to many people it never wrote to. Perhaps somebody has stolen "+
		"the password; ask the user before you release anything.", n.account())
	if n.Text != "" {
		l.paragraph("Why: %s.", clean(n.Text, 1000))
	}
	n.onServer(l, "weir reach show "+n.User, "weir queue list", "weir user passwd "+n.User, "weir reach clear "+n.User)
}

func (n *Notice) admin(l *lines) {
	limit := ""
	if n.Limit > 0 {
		limit = fmt.Sprintf(", and %d may", n.Limit)
	}
	l.paragraph("The account %s is stopped: %s waiting%s. Its mail is kept, new mail from it is refused, and the user "+
		"was told where a contact is known. Perhaps somebody has stolen the password; ask the user before you release "+
		"anything.", n.account(), countIs(n.Waiting, "recipient"), limit)
	if n.Text != "" {
		l.paragraph("Why: %s", clean(n.Text, 1000))
	}
	n.onServer(l, "weir queue list", "weir user passwd "+n.User, "weir user resume "+n.User)
}

// onServer lists commands for the admin, if the name of the user can be typed into a shell as it is.
func (n *Notice) onServer(l *lines, commands ...string) {
	if len(n.User) > maxName || !shellWord.MatchString(n.User) {
		return
	}
	l.line("On the server:")
	l.line("")
	for _, c := range commands {
		l.line("    " + c)
	}
	l.line("")
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

// held is how many messages are held, listed or not.
func (n *Notice) held() int { return len(n.Held) + max(n.More, 0) }

func (n *Notice) list(l *lines) {
	if n.held() == 0 {
		return
	}
	l.line("What is waiting:")
	l.line("")
	shown := n.Held[:min(len(n.Held), MaxLines)]
	for i, m := range shown {
		about := clock(m.At, n.Now) + ", " + size(m.Size)
		if n.Kind == Admin || n.Kind == AdminFlagged {
			about += ", " + m.ID.String()
		}
		// Lines with words of a message are never broken: no line begins with such a word.
		l.line(fmt.Sprintf("%3d. %s", i+1, about))
		l.line("     To: " + recipients(m.To))
		l.line("     Subject: " + cmp.Or(cite(m.Subject, maxSubject), "(none)"))
	}
	if more := n.held() - len(shown); more > 0 {
		l.line(fmt.Sprintf("     and %s more that %s not listed here", count(more, "message"), isAre(more)))
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
		if n.Link == "" && (n.Kind == Stopped || n.Kind == Delayed || n.Kind == Review ||
			n.Kind == Flagged && n.held() > 0) {
			l.fill("", "", "Those who run the mail server can release the messages, or delete them.")
		}
		return
	}
	l.fill("", "", "By mail, once"+until+
		": answer this message, and write one or more of these at the very top, each on a line of its own.")
	l.line("")
	for _, w := range n.commands() {
		l.line(fmt.Sprintf("    %-14s %s", w[0], w[1]))
	}
	l.line("")
	l.fill("", "", "Do not forward this message: anyone who has it can do the same.")
}

// commands returns examples that fit what is listed.
func (n *Notice) commands() (all [][2]string) {
	add := func(command, does string) { all = append(all, [2]string{command, "(" + does + ")"}) }
	listed, several := min(len(n.Held), MaxLines), n.held() > 1
	if several {
		add("release all", "sends all of them")
	}
	switch {
	case listed > 2:
		add("release 1 3", "sends messages 1 and 3")
	case listed > 0:
		add("release 1", "sends mail 1")
	}
	if listed > 0 {
		which := strconv.Itoa(min(listed, 2))
		add("delete "+which, "throws message "+which+" away")
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

// shellWord is a name that can be typed into a shell as it is.
var shellWord = regexp.MustCompile(`^[a-zA-Z0-9@._+][a-zA-Z0-9@._+-]*$`)

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
