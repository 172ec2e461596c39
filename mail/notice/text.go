package notice

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"weir/internal/words"
)

// Mark is above the text of a notice. However a mail program quotes, the user did not write what is below it.
const Mark words.Text = "write above this line"

// subjects are for users. Admins are told in English.
var subjects = map[Kind]words.Text{
	Stopped: "Your mail is on hold: {user} at {host}",
	Delayed: "Your mail is delayed: {user} at {host}",
	Review:  "A mail of yours is held for review: {user} at {host}",
	Barred:  "Your account was stopped: {user} at {host}",
	Flagged: "Your mail goes to many new people: {user} at {host}",

	Reminder: "Your mail is still on hold: {user} at {host}",
	Link:     "Your link to your held mail: {user} at {host}",
}

func (n *Notice) subject() string {
	user, host := clean(n.User, maxName), clean(n.Host, maxName)
	switch n.Kind {
	case Answer:
	case Admin:
		return "Stopped: " + user + " at " + host + ", " + count(n.Waiting, "recipient") + " waiting"
	case AdminFlagged:
		return "Flagged: " + user + " at " + host + " writes to many new people"
	case AdminReminder:
		return "Still held: mail of " + user + " at " + host
	default:
		return n.Language.Say(subjects[n.Kind], "user", user, "host", host)
	}
	subject := cite(n.Subject, maxSubject)
	if subject == "" {
		return n.Language.Say("Your answer about your mail on hold")
	}
	if len(subject) >= 3 && strings.EqualFold(subject[:3], "re:") {
		return subject
	}
	return "Re: " + subject
}

var bodies = map[Kind]func(*Notice, *lines){
	Stopped: (*Notice).stopped, Delayed: (*Notice).delayed, Admin: (*Notice).admin, Answer: (*Notice).answer,
	Review: (*Notice).review, Barred: (*Notice).barred, Flagged: (*Notice).flagged,
	AdminFlagged: (*Notice).adminFlagged, Reminder: (*Notice).reminder, AdminReminder: (*Notice).adminReminder,
	Link: (*Notice).link,
}

func (n *Notice) body() string {
	l := &lines{}
	if n.ReplyTo != "" {
		l.line("---- " + n.Language.Say("To act by mail, {mark}", "mark", n.Language.Say(Mark)) + " ----")
		l.line("")
	}
	bodies[n.Kind](n, l)
	n.expiry(l)
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
	return n.Language.Say("\"{user}\" at {host}", "user", cite(n.User, maxName), "host", clean(n.Host, maxName))
}

// say writes a paragraph in the language of the user, about the account.
func (n *Notice) say(l *lines, t words.Text) {
	l.fill("", "", n.Language.Say(t, "account", n.account(), "kept", n.kept(), "text", clean(n.Text, 1000),
		"since", n.clock(n.Since),
		"waiting", n.count(n.Waiting, "{n} recipient is", "{n} recipients are"),
		"limit", n.count(n.Limit, "{n} recipient", "{n} recipients")))
	l.line("")
}

func (n *Notice) count(how int, one, other words.Text) string {
	return n.Language.Count(int64(how), one, other)
}

func (n *Notice) kept() string {
	return n.Language.Count(int64(n.held()), "Nothing is lost. {n} message with {recipients} is kept",
		"Nothing is lost. {n} messages with {recipients} are kept",
		"recipients", n.count(n.Waiting, "{n} recipient", "{n} recipients"))
}

func (n *Notice) stopped(l *lines) {
	n.say(l, "Your account {account} has sent mail to many new addresses in a short time. That is how it looks when "+
		"somebody has stolen a password, so the server has stopped sending your mail.")
	n.say(l, "{kept}, and you decide what happens next. Until you do, the server takes no new mail from this account.")
	n.say(l, "IF YOU DID NOT WRITE THESE MESSAGES, somebody has your password. Change it at once, on a computer that you "+
		"trust, then delete the messages, and only then let your account send again. Tell those who run your mail.")
	n.say(l, "If you did write them, release them: they leave at once. Then let your account send again. One does not do "+
		"the other: what you do not release stays on hold.")
}

func (n *Notice) delayed(l *lines) {
	n.say(l, "Your account {account} has sent mail to many new addresses in a short time. The server now sends it "+
		"slowly, to one recipient after the other: {waiting} waiting.")
	if n.Limit > 0 {
		n.say(l, "Nothing is lost, and you need not do anything: your mail arrives, a little later. If more than {limit} "+
			"wait, the server stops sending for this account and asks you.")
	} else {
		n.say(l, "Nothing is lost, and you need not do anything: your mail arrives, a little later.")
	}
	n.say(l, "IF YOU DID NOT WRITE THESE MESSAGES, somebody has your password. Change it at once, on a computer that you "+
		"trust, and delete the messages. Tell those who run your mail.")
}

func (n *Notice) review(l *lines) {
	if n.Limit > 0 {
		n.say(l, "Your account {account} has sent a message to so many people at once that it is held until somebody has "+
			"looked at it. More than {limit} may not wait.")
	} else {
		n.say(l, "Your account {account} has sent a message to so many people at once that it is held until somebody has "+
			"looked at it.")
	}
	n.say(l, "Nothing is lost, and your other mail goes on. The mail leaves when you release it, or those who run the "+
		"mail server do.")
	n.say(l, "IF YOU DID NOT WRITE IT, somebody has your password. Change it at once, on a computer that you trust, and "+
		"delete the mail. Tell those who run your mail.")
}

func (n *Notice) barred(l *lines) {
	n.say(l, "Those who run the mail server have stopped your account {account}: it takes no new mail from you.")
	if n.Text != "" {
		n.say(l, "They write: {text}")
	}
	n.say(l, "Only they can let it send again. Please ask them.")
}

func (n *Notice) flagged(l *lines) {
	n.say(l, "Your account {account} has written to many people it never wrote to before, in a short time. That is how "+
		"it looks when somebody has stolen a password, so the server is careful with it until there are fewer of them "+
		"again.")
	if n.held() > 0 {
		n.say(l, "{kept} until you release them, or those who run the mail server do. Mail to people you have written to "+
			"before goes on.")
	} else {
		n.say(l, "If the server refuses a message, your mail program tells you.")
	}
	n.say(l, "IF YOU DID NOT WRITE TO THEM, somebody has your password. Change it at once, on a computer that you trust, "+
		"and delete the messages. Tell those who run your mail.")
}

func (n *Notice) reminder(l *lines) {
	n.say(l, "Mail of your account {account} is still on hold, the oldest since {since}: nobody has released it or deleted "+
		"it.")
	n.say(l, "If you did write it, release it. It leaves at once.")
	n.say(l, "IF YOU DID NOT WRITE IT, somebody has your password. Change it at once, on a computer that you trust, and "+
		"delete the mail. Tell those who run your mail.")
}

func (n *Notice) link(l *lines) {
	n.say(l, "Somebody has logged in to the page of your account {account} with its password, and has asked for this link. "+
		"With it you can release held mail and delete it, and let your account send again.")
	n.say(l, "IF IT WAS NOT YOU, somebody has your password. Change it at once, on a computer that you trust. Tell those "+
		"who run your mail.")
}

// expiry says until when one may decide.
func (n *Notice) expiry(l *lines) {
	days := int(n.Expire / (24 * time.Hour))
	if days == 0 || n.held() == 0 {
		return
	}
	switch n.Kind {
	case Stopped, Review, Barred, Flagged, Reminder:
		l.fill("", "", n.count(days, "What is on hold for {n} day is not sent any more: it goes back to its sender.",
			"What is on hold for {n} days is not sent any more: it goes back to its sender."))
		l.line("")
	case AdminReminder:
		l.paragraph("What is held for %s is given up, and its sender is told.", count(days, "day"))
	}
}

func (n *Notice) adminReminder(l *lines) {
	l.paragraph("Mail of the account %s is still held, the oldest since %s. The user has no contact, so nobody else is "+
		"told.", n.account(), n.clock(n.Since))
	n.onServer(l, "weir queue list --user "+n.User, "weir user set "+n.User+" contact=ADDRESS")
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
	l.line(n.Language.Say("What is waiting:"))
	l.line("")
	shown := n.Held[:min(len(n.Held), MaxLines)]
	for i, m := range shown {
		about := n.clock(m.At) + ", " + n.size(m.Size)
		if n.Kind == Admin || n.Kind == AdminFlagged || n.Kind == AdminReminder {
			about += ", " + m.ID.String()
		}
		// Lines with words of a message are never broken: no line begins with such a word.
		l.line(fmt.Sprintf("%3d. %s", i+1, about))
		l.line("     " + n.Language.Say("To: {recipients}", "recipients", n.recipients(m.To)))
		l.line("     " + n.Language.Say("Subject: {subject}", "subject",
			cmp.Or(cite(m.Subject, maxSubject), n.Language.Say("(none)"))))
	}
	if more := n.held() - len(shown); more > 0 {
		l.line("     " + n.count(more, "and {n} message more that is not listed here",
			"and {n} messages more that are not listed here"))
	}
	l.line("")
}

func (n *Notice) ways(l *lines) {
	page, mail := n.Language.Say("On the web page:"), n.Language.Say("By mail, once: answer this message, and write one "+
		"or more of these at the very top.")
	if !n.Until.IsZero() {
		until := n.clock(n.Until)
		page = n.Language.Say("On the web page, until {time}:", "time", until)
		mail = n.Language.Say("By mail, once, until {time}: answer this message, and write one or more of these at the "+
			"very top.", "time", until)
	}
	commands := n.commands()
	if n.Kind == Answer && len(commands) == 0 {
		return
	}
	if n.Link != "" {
		l.line(page)
		l.line("")
		l.line("    " + n.Link)
		l.line("")
	}
	if n.ReplyTo == "" {
		if n.Link == "" && (n.Kind == Stopped || n.Kind == Delayed || n.Kind == Review || n.Kind == Reminder ||
			n.Kind == Flagged && n.held() > 0) {
			l.fill("", "", n.Language.Say("Those who run the mail server can release the messages, or delete them."))
		}
		return
	}
	l.fill("", "", mail)
	l.line("")
	for _, w := range commands {
		l.line(fmt.Sprintf("    %-14s %s", w[0], w[1]))
	}
	l.line("")
	l.fill("", "", n.Language.Say("Do not forward this message: anyone who has it can do the same."))
}

// commands returns examples that fit what is listed.
func (n *Notice) commands() (all [][2]string) {
	say := n.Language.Say
	release, remove, every := say(wordRelease), say(wordDelete), say(wordAll)
	add := func(command, does string) { all = append(all, [2]string{command, "(" + does + ")"}) }
	listed, several := min(len(n.Held), MaxLines), n.held() > 1
	if several {
		add(release+" "+every, say("sends all of them"))
	}
	switch {
	case listed > 2:
		add(release+" 1 3", say("sends messages 1 and 3"))
	case listed > 0:
		add(release+" 1", say("sends mail 1"))
	}
	if listed > 0 {
		which := min(listed, 2)
		add(remove+" "+strconv.Itoa(which), say("throws message {n} away", "n", which))
	}
	if several {
		add(remove+" "+every, say("throws all of them away"))
	}
	if n.CanResume {
		add(say(wordResume), say("lets the account send again; what is on hold stays there"))
	}
	if n.CanResume && listed > 0 {
		which := "1"
		if several {
			which = every
		}
		add(release+" "+which+", "+say(wordResume), say("does both"))
	}
	return all
}

func (n *Notice) recipients(to []string) string {
	var names []string
	for _, a := range to[:min(len(to), maxShown)] {
		names = append(names, cite(a, maxAddress))
	}
	text := strings.Join(names, ", ")
	if more := len(to) - maxShown; more > 0 {
		text += " " + n.Language.Say("and {n} more", "n", more)
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

// clock says when. The text is a layout of package time, which knows names in English only.
func (n *Notice) clock(t time.Time) string {
	return t.In(n.Now.Location()).Format(n.Language.Say("Mon, 2 Jan 2006 15:04 MST"))
}

func (n *Notice) size(bytes int64) string {
	switch {
	case bytes < 1000:
		return n.Language.Count(max(bytes, 0), "{n} byte", "{n} bytes")
	case bytes < 1_000_000:
		return n.Language.Say("{n} KB", "n", bytes/1000)
	}
	return n.Language.Say("{n} MB", "n", n.Language.Tenths(float64(bytes)/1_000_000))
}
