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
	Moved:    "Your notices go elsewhere: {user} at {host}",
}

const restricted words.Text = "Your account is restricted: {user} at {host}"

// Heading is the subject of the notice.
func (n *Notice) Heading() string {
	user, host := clean(n.User, maxName), clean(n.Host, maxName)
	about := subjects[n.Kind]
	switch {
	case n.Kind == Stopped && n.waits() == 0:
		about = subjects[Barred]
	case n.Kind == Flagged && n.Forever:
		about = restricted
	}
	switch n.Kind {
	case Answer:
	case Admin:
		if n.All() == 0 {
			return "Stopped: " + user + " at " + host
		}
		return "Stopped: " + user + " at " + host + ", " + n.recipientCount(n.All()) + " waiting"
	case AdminFlagged:
		return "Flagged: " + user + " at " + host + " writes to many new people"
	case AdminReminder:
		return "Still held: mail of " + user + " at " + host
	default:
		return n.Language.Say(about, "user", user, "host", host)
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
	Link: (*Notice).link, Moved: (*Notice).moved,
}

func (n *Notice) body() string {
	l := &lines{}
	if n.ReplyTo != "" && (n.acts() || n.Kind == Answer) {
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
func (n *Notice) say(l *lines, texts ...words.Text) {
	var all []string
	for _, t := range texts {
		all = append(all, n.Language.Say(t, "account", n.account(), "text", clean(n.Text, 1000), "since",
			n.clock(n.Since), "resume", n.clock(n.Resume), "rate", clean(n.Rate, maxName), "limit", n.recipientCount(n.Limit)))
	}
	l.fill("", "", strings.Join(all, " "))
	l.line("")
}

func (n *Notice) count(how int, one, other words.Text) string {
	return n.Language.Count(int64(how), one, other)
}

func (n *Notice) recipientCount(how int) string {
	return n.count(how, "{n} recipient", "{n} recipients")
}

// tell writes a paragraph about some recipients, if there are any.
func (n *Notice) tell(l *lines, how int, one, other words.Text) {
	if how > 0 {
		l.fill("", "", n.count(how, one, other))
		l.line("")
	}
}

// acts reports whether the user can do something by this notice.
func (n *Notice) acts() bool {
	return (n.Link != "" || n.ReplyTo != "") && (n.waits() > 0 || n.CanResume || n.Kind == Link)
}

// counts says what waits, each state by itself.
func (n *Notice) counts(l *lines) {
	n.tell(l, n.Delayed, "Mail to {n} recipient is delayed. It leaves by itself, a little later.",
		"Mail to {n} recipients is delayed. It leaves by itself, to one recipient after the other.")
	n.tell(l, n.Held, "Mail to {n} recipient is on hold.", "Mail to {n} recipients is on hold.")
	n.tell(l, n.New, "Mail to {n} recipient is on hold because the account never wrote there before.",
		"Mail to {n} recipients is on hold because the account never wrote to them before.")
}

// states says what waits, and what becomes of it.
func (n *Notice) states(l *lines) {
	n.counts(l)
	const safe words.Text = "Nothing of it is lost."
	switch {
	case n.decided() > 0 && n.acts():
		n.say(l, "What is on hold leaves only when you release it, or those who run the mail server do.", safe)
	case n.decided() > 0:
		n.say(l, "What is on hold leaves when those who run the mail server release it.", safe)
	case n.waits() > 0:
		n.say(l, safe)
	}
}

const tellThem words.Text = "Tell those who run the mail server."

// stolen says what to do first about messages that somebody else wrote.
func (n *Notice) stolen(l *lines) {
	all := []words.Text{"IF YOU DID NOT WRITE THESE MESSAGES, somebody has your password. Change it at once, on a " +
		"computer that you trust."}
	if n.Password && n.Link != "" {
		all = append(all, "The web page has a form for it.")
	}
	if n.acts() && n.waits() > 0 {
		all = append(all, "Then delete the messages.")
	}
	if n.acts() && n.CanResume {
		all = append(all, "Only then let your account send again.")
	}
	tell := tellThem
	if !n.acts() && n.waits() > 0 {
		tell = "Tell those who run the mail server: they can delete the messages."
	}
	n.say(l, append(all, tell)...)
}

// yours says what to do about messages that the user wrote.
func (n *Notice) yours(l *lines) {
	var all []words.Text
	switch {
	case n.acts() && n.decided() > 0:
		all = []words.Text{"If you did write them, release them: they leave at once."}
		if n.CanResume {
			all = append(all, "Then let your account send again. One does not do the other: what you do not release "+
				"stays on hold.")
		}
	case n.acts() && n.CanResume:
		all = []words.Text{"If you did write them, let your account send again."}
	case n.Kind == Stopped && n.decided() > 0:
		all = []words.Text{"If you did write them, ask those who run the mail server to release them, and to let your " +
			"account send again."}
	case n.Kind == Stopped:
		all = []words.Text{"If you did write them, ask those who run the mail server to let your account send again."}
	case n.decided() > 0:
		all = []words.Text{"If you did write them, ask those who run the mail server to release them."}
	case n.Kind == Flagged:
		all = []words.Text{"If you did write them, ask those who run the mail server to end this."}
	}
	if n.Kind == Stopped || n.Kind == Review || n.Kind == Flagged && !n.Forever {
		all = append(all, "If you often write to so many people, ask those who run the mail server for a higher limit.")
	}
	if len(all) > 0 {
		n.say(l, all...)
	}
}

func (n *Notice) stopped(l *lines) {
	all := []words.Text{"Your account {account} has sent mail to many new addresses in a short time. That is how it " +
		"looks when somebody has stolen a password.", "So the server takes no new mail from this account until " +
		"somebody lets it send again."}
	if !n.Resume.IsZero() {
		all[1] = "So the server takes no new mail from this account until somebody lets it send again, or until " +
			"{resume}: from then on it can send again by itself, slowly."
	}
	n.say(l, all...)
	if n.Elsewhere != Here {
		n.say(l, n.Elsewhere.Text())
	}
	n.states(l)
	n.stolen(l)
	n.yours(l)
	if n.New > 0 {
		n.say(l, "New mail to people the account never wrote to before may still be put on hold then.")
	}
}

func (n *Notice) delayed(l *lines) {
	n.say(l, "Your account {account} has sent mail to many new addresses in a short time. So the server sends it "+
		"slowly.")
	n.states(l)
	if n.Limit > 0 {
		n.say(l, "If mail to more than {limit} is delayed, the server stops sending for this account, and tells you.")
	}
	n.stolen(l)
}

func (n *Notice) review(l *lines) {
	all := []words.Text{"Your account {account} has sent a message to so many people at once that it is held until " +
		"somebody has looked at it."}
	if n.Limit > 0 {
		all = append(all, "At most {limit} can be delayed at once.")
	}
	n.say(l, all...)
	n.states(l)
	n.stolen(l)
	n.yours(l)
}

func (n *Notice) barred(l *lines) {
	n.say(l, "Those who run the mail server have stopped your account {account}: it takes no new mail from you.")
	if n.Text != "" {
		n.say(l, "They write: {text}")
	}
	n.say(l, "Only they can let it send again. Please ask them.")
	n.states(l)
}

func (n *Notice) flagged(l *lines) {
	all := []words.Text{"This ends by itself when there are fewer new people, or when those who run the mail server " +
		"end it."}
	if n.Forever {
		n.say(l, "Those who run the mail server have restricted your account {account}.")
		all[0] = "This ends when those who run the mail server end it."
	} else {
		n.say(l, "Your account {account} has written to many people it never wrote to before, in a short time. That is "+
			"how it looks when somebody has stolen a password.")
	}
	switch {
	case n.Over == Rationed:
		n.say(l, "So the server takes only some of its mail for now ({rate}), and puts off the rest. If a message is "+
			"put off, your mail program tells you.")
	case n.Over == Blocked:
		n.say(l, "So the server refuses its mail for now. Your mail program tells you what was refused.")
	case n.Over == NewRefused, n.Elsewhere == Declined:
		n.say(l, "So the server refuses its mail to people it never wrote to before. Your mail program tells you what "+
			"was refused. Mail to others goes on.")
	case n.Elsewhere == OnHold:
		n.say(l, "So mail to people it never wrote to before goes into the hold queue of the mail server, where those "+
			"who run it can release it. Mail to others goes on.")
	case n.Elsewhere == PutOff:
		n.say(l, "So the server does not take its mail to people it never wrote to before for now. Your mail program "+
			"may try again. Mail to others goes on.")
	default:
		n.say(l, "So mail to people it never wrote to before is put on hold. Mail to others goes on.")
	}
	if n.Over == NewOnHold && (n.Elsewhere == Here || n.Elsewhere == OnHold) {
		all = append(all, "What is on hold stays on hold after that.")
	}
	n.say(l, all...)
	n.states(l)
	if n.New > 0 && n.acts() {
		n.say(l, "More may be put on hold after this notice: you will see it when you have dealt with what is listed here.")
	}
	n.stolen(l)
	n.yours(l)
}

func (n *Notice) reminder(l *lines) {
	n.say(l, "Mail of your account {account} is still on hold, the oldest since {since}: nobody has released it or "+
		"deleted it.")
	n.states(l)
	n.stolen(l)
	n.yours(l)
}

func (n *Notice) link(l *lines) {
	all := []words.Text{"Somebody has logged in to the page of your account {account} with its password, and has asked " +
		"for this link. With it you can release held mail and delete it."}
	if n.CanResume {
		all = append(all, "You can also let your account send again.")
	}
	n.say(l, all...)
	n.say(l, "IF IT WAS NOT YOU, somebody has your password. Change it at once, on a computer that you trust.", tellThem)
	n.states(l)
}

func (n *Notice) moved(l *lines) {
	n.say(l, "Notices about your account {account} go to another address from now on. This is the last one that comes here.")
	n.say(l, "IF YOU DID NOT WANT THAT, tell those who run your mail at once: whoever reads mail at the other address "+
		"can release held mail, and let your account send again.")
}

// expiry says until when one may decide.
func (n *Notice) expiry(l *lines) {
	days := int(n.Expire / (24 * time.Hour))
	if days == 0 || n.decided() == 0 {
		return
	}
	switch n.Kind {
	case Stopped, Review, Barred, Flagged, Reminder, AdminReminder:
		n.tell(l, days, "What is on hold for {n} day is not sent any more: it goes back to its sender.",
			"What is on hold for {n} days is not sent any more: it goes back to its sender.")
	}
}

func (n *Notice) adminReminder(l *lines) {
	l.paragraph("Mail of the account %s is still held, the oldest since %s. The user has no contact, so nobody else "+
		"is told.", n.account(), n.clock(n.Since))
	n.onServer(l, "weir queue list --user "+n.User, n.contact())
}

func (n *Notice) adminFlagged(l *lines) {
	l.paragraph("The account %s is flagged: it writes to many people it never wrote to. Perhaps somebody has stolen "+
		"the password; ask the user before you release anything.", n.account())
	if n.Text != "" {
		l.paragraph("Why: %s.", clean(n.Text, 1000))
	}
	n.tooMuch(l)
	l.paragraph("Accounts that always write to many new people can be listed under exempt of the reach throttle.")
	n.steps(l, []string{"weir reach show " + n.User, n.listing()}, "weir reach clear "+n.User)
}

func (n *Notice) admin(l *lines) {
	l.paragraph("The account %s is stopped: new mail from it is refused. Perhaps somebody has stolen the password; "+
		"ask the user before you release anything.", n.account())
	if n.waits() > 0 {
		n.counts(l)
		l.paragraph("What is on hold leaves only when somebody releases it, also after the user may send again. Delete " +
			"what somebody else wrote, and release what the user wrote.")
	}
	n.tooMuch(l)
	commands := []string{n.listing()}
	if n.Untold {
		l.paragraph("The user has no contact, and was not told.")
		commands = append(commands, n.contact())
	}
	if n.Text != "" {
		l.paragraph("Why: %s", clean(n.Text, 1000))
	} else {
		l.paragraph("Users who often write to so many people, newsletters for instance, can have limits of their own: " +
			"weir user set, with stop=100 or with exempt=true.")
	}
	n.steps(l, commands, "weir user resume "+n.User)
}

// tooMuch says what became of messages that weir does not keep.
func (n *Notice) tooMuch(l *lines) {
	if n.Elsewhere != Here {
		l.paragraph("What was too much %s", [...]string{OnHold: "is in the hold queue of the mail server: postsuper -H " +
			"releases a message there, and postsuper -d deletes it.", PutOff: "was not taken by the mail server; clients " +
			"may try again.", Declined: "was refused by the mail server."}[n.Elsewhere])
	}
}

// steps lists commands, and between the last of them and the others those for the password and for what waits.
func (n *Notice) steps(l *lines, commands []string, last string) {
	if n.Password {
		commands = append(commands, "weir user passwd "+n.User)
	} else {
		l.paragraph("weir does not have the password of the user: change it where your mail server has it.")
	}
	if n.waits() > 0 {
		commands = append(commands, "weir queue delete --all --user "+n.User, "weir queue release --all --user "+n.User)
	}
	n.onServer(l, append(commands, last)...)
}

// listing is the command that shows the messages that were too much.
func (n *Notice) listing() string {
	switch {
	case n.Elsewhere == OnHold:
		return "postqueue -p"
	case n.waits() == 0:
		return "weir user show " + n.User
	}
	return "weir queue list --user " + n.User
}

// contact is the command that gives the user a contact.
func (n *Notice) contact() string {
	if n.Unknown {
		return "weir user add " + n.User + " --no-password --contact ADDRESS"
	}
	return "weir user set " + n.User + " contact=ADDRESS"
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

// waits is how many messages wait, listed or not.
func (n *Notice) waits() int { return len(n.List) + max(n.More, 0) }

func (n *Notice) list(l *lines) {
	if n.waits() == 0 {
		return
	}
	l.line(n.Language.Say("What is waiting:"))
	l.line("")
	shown := n.List[:min(len(n.List), MaxLines)]
	for i, m := range shown {
		about := n.clock(m.At) + ", " + n.Language.Size(m.Size)
		if n.Kind == Admin || n.Kind == AdminFlagged || n.Kind == AdminReminder {
			about += ", " + m.ID.String()
		}
		// Lines with words of a message are never broken: no line begins with such a word.
		l.line(fmt.Sprintf("%3d. %s", i+1, about))
		n.recipients(l, "Delayed, to: {recipients}", m.Delayed)
		n.recipients(l, "On hold, to: {recipients}", m.Held)
		n.recipients(l, "On hold, never written to before: {recipients}", m.New)
		l.line("     " + n.Language.Say("Subject: {subject}", "subject",
			cmp.Or(cite(m.Subject, maxSubject), n.Language.Say("(none)"))))
	}
	if more := n.waits() - len(shown); more > 0 {
		l.line("     " + n.count(more, "and {n} message more that is not listed here",
			"and {n} messages more that are not listed here"))
	}
	l.line("")
}

func (n *Notice) ways(l *lines) {
	if !n.acts() {
		return
	}
	until := n.clock(n.Until)
	if n.Link != "" {
		l.line(n.Language.Say("On the web page, until {time}:", "time", until))
		l.line("")
		l.line("    " + n.Link)
		l.line("")
	}
	if commands := n.commands(); n.ReplyTo != "" && len(commands) > 0 {
		l.fill("", "", n.Language.Say("By mail, once, until {time}: answer this message, and write one or more of these at "+
			"the very top.", "time", until))
		l.line("")
		for _, w := range commands {
			l.line(fmt.Sprintf("    %-14s %s", w[0], w[1]))
		}
		l.line("")
	}
	l.fill("", "", n.Language.Say("Do not forward this message: anyone who has it can do the same."))
}

// commands returns examples that fit what is listed.
func (n *Notice) commands() (all [][2]string) {
	say := n.Language.Say
	release, remove, every := say(wordRelease), say(wordDelete), say(wordAll)
	add := func(command, does string) { all = append(all, [2]string{command, "(" + does + ")"}) }
	listed, several := min(len(n.List), MaxLines), n.waits() > 1
	if several {
		add(release+" "+every, say("sends all of them"))
	}
	switch {
	case listed > 2:
		add(release+" 1 3", say("sends messages 1 and 3"))
	case listed > 0:
		add(release+" 1", say("sends message 1"))
	}
	if listed > 0 {
		which := min(listed, 2)
		add(remove+" "+strconv.Itoa(which), say("throws message {n} away", "n", which))
	}
	if several {
		add(remove+" "+every, say("throws all of them away"))
	}
	switch {
	case n.CanResume && n.decided() > 0:
		add(say(wordResume), say("lets the account send again; what is on hold stays there"))
	case n.CanResume:
		add(say(wordResume), say("lets the account send again"))
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

// recipients writes some recipients of a message, if there are any.
func (n *Notice) recipients(l *lines, t words.Text, to []string) {
	if len(to) == 0 {
		return
	}
	var names []string
	for _, a := range to[:min(len(to), maxShown)] {
		names = append(names, cite(a, maxAddress))
	}
	text := strings.Join(names, ", ")
	if more := len(to) - maxShown; more > 0 {
		text += " " + n.Language.Say("and {n} more", "n", more)
	}
	l.line("     " + n.Language.Say(t, "recipients", text))
}

// shellWord is a name that can be typed into a shell as it is.
var shellWord = regexp.MustCompile(`^[a-zA-Z0-9@._+][a-zA-Z0-9@._+-]*$`)

// clock says when. The text is a layout of package time, which knows names in English only.
func (n *Notice) clock(t time.Time) string {
	return t.In(n.Now.Location()).Format(n.Language.Say("Mon, 2 Jan 2006 15:04 MST"))
}
