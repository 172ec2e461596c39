package simulate

import (
	"time"

	"weir/throttle/outbreak"
)

// An Entry is one mail of a log.
type Entry struct {
	At   time.Time
	User string
	To   []string
}

// A Study is the result of a mail log under a throttle.
type Study struct {
	Figures
	Log    LogInfo      `json:"log"`
	Params ParamsInfo   `json:"params"`
	Worst  []UserStudy  `json:"worst"` // the users who would notice most, at most MaxWorst
	Sweeps []Sweep      `json:"sweeps,omitempty"`
	Queue  []QueuePoint `json:"queue"` // the length of the queue over the day, of all users together
	// How many seconds of the log are one moment of the queue: 1, or more where too much happens to tell all of them
	// apart.
	QueueEvery int         `json:"queue_every_s"`
	Reach      *ReachStudy `json:"reach,omitempty"`
	Advice     *Advice     `json:"advice,omitempty"`
	// How long those waited who left by the clock: which share of them no longer than that. It rises to 1.
	Delays []DelayPoint `json:"delays"`
}

// Figures are what a throttle would have done to a whole log.
type Figures struct {
	Mails        int     `json:"messages"`
	Delayed      int     `json:"delayed"` // mails with at least one recipient who had to wait
	DelayedShare float64 `json:"delayed_share"`
	Stops        int     `json:"stops"`
	MeanDelay    float64 `json:"mean_delay_s"` // of a delayed recipient who left the queue by the clock
	Users        int     `json:"users"`
	Recipients   int     `json:"recipients"` // of all mails
	Waited       int     `json:"waited"`     // recipients who had to wait
	// those of them who left by the clock; the others were released when their user was stopped
	Left        int     `json:"left"`
	MedianDelay float64 `json:"median_delay_s"`
	MaxDelay    float64 `json:"max_delay_s"`
	// at once, of all users; roughly where very much happens, of what is swept above all
	MostWaiting  int      `json:"most_waiting"`
	StoppedUsers int      `json:"stopped_users"`       // at least once
	DelayedUsers int      `json:"delayed_users"`       // at least once
	StopsMonthly float64  `json:"stops_user_month"`    // for each user, in 30 days
	StopsRange   Interval `json:"stops_user_month_95"` // exact Poisson
	Large        int      `json:"large,omitempty"`     // mails held for review, if large: hold; they count as delayed
}

// LogInfo is what a log was like.
type LogInfo struct {
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Lines   int       `json:"lines"`
	Skipped int       `json:"skipped"` // lines that are of no mail a user sent, or cannot be read
	Mails   int       `json:"messages"`
	Users   int       `json:"users"`
	Reasons []Reason  `json:"reasons,omitempty"` // why lines were skipped
	// The times are seconds from a start that the log does not tell.
	Relative bool `json:"relative,omitempty"`
}

// Reason is why lines of a log were skipped, and an example.
type Reason struct {
	Why   string `json:"why"`
	Lines int    `json:"lines"`
	First int    `json:"first"` // the number of the first such line
}

// ParamsInfo is what the throttle was run with.
type ParamsInfo struct {
	Period      string          `json:"period"`                 // one recipient per so long
	MultiPeriod string          `json:"multi_period,omitempty"` // … of mails to several, where that is another
	WorkingSet  int             `json:"working_set"`
	MaxSlack    int             `json:"max_slack"`
	MaxMSlack   int             `json:"max_mslack"`
	Stop        int             `json:"stop"`
	Mail        outbreak.Params `json:"-"`
}

// UserStudy is what would have happened to one user.
type UserStudy struct {
	User      string  `json:"user"`
	Mails     int     `json:"messages"`
	Delayed   int     `json:"delayed"`
	Stops     int     `json:"stops"`
	MeanDelay float64 `json:"mean_delay_s"`
	MaxDelay  float64 `json:"max_delay_s"`
	Most      int     `json:"most_waiting"`
}

// A Sweep is the same log under several values of one parameter.
type Sweep struct {
	Parameter string       `json:"parameter"` // working_set, max_mslack, rate, stop …
	Points    []SweepPoint `json:"points"`
}

// A SweepPoint is one value of a swept parameter. The same fields are in the JSON of it.
type SweepPoint struct {
	Value string  `json:"value"` // as an operator writes it
	X     float64 `json:"x"`     // for plots: the number, or recipients per minute
	Figures
}

// A QueuePoint is how many recipients wait at a time of the day, over all days of the log.
type QueuePoint struct {
	Minute int     `json:"minute"` // of the day
	Mean   float64 `json:"mean"`
	Most   int     `json:"most"`
}

// A DelayPoint is a point of the distribution of delays.
type DelayPoint struct {
	Seconds float64 `json:"s"`
	Share   float64 `json:"share"` // waited no longer
}

// InSample says what figures are worth that were chosen on the same log.
const InSample = "In-sample: the values were tried on the same log, which they fit better than the next one. Run " +
	"what you choose in shadow first."

// IntervalReading says what the intervals beside rates are.
const IntervalReading = "95% intervals are Wilson's for shares of users, and exact Poisson intervals for stops and " +
	"flags. They take events for " +
	"independent: where one user has many of them, less is certain."

// ReachStudy is what a reach throttle would have done to the log.
type ReachStudy struct {
	Flags        int      `json:"flags"`
	FlaggedUsers int      `json:"flagged_users"`
	FlagsMonthly float64  `json:"flags_100_users_month"`    // for 100 users, in 30 days
	FlagsRange   Interval `json:"flags_100_users_month_95"` // exact Poisson
	Held         int      `json:"held"`                     // recipients, if over: hold-new or known-only
	// those with the most recipients or flags, at most MaxWorst
	Users      []ReachUser  `json:"users"`
	Thresholds []Threshold  `json:"thresholds"` // the same log under other thresholds
	Stolen     []Stolen     `json:"stolen,omitempty"`
	Growth     []ReachCurve `json:"growth"` // of the users with the most recipients, for plots
}

// ReachReading says how the figures of users belong together.
const ReachReading = "Recipients are those of the log, whether they would have been held or not: who is new within " +
	"an hour is also new within " +
	"the day. A recipient who is held counts as held in every message. Large counts are estimates, by default to 1.3%."

// ReachUser is how many different people a user wrote to, as the log has it: those that reach would have held are among
// them.
type ReachUser struct {
	User       string  `json:"user"`
	Mails      int     `json:"messages"`
	Recipients float64 `json:"recipients"` // different ones
	MostHour   float64 `json:"most_hour"`  // new ones within an hour
	MostDay    float64 `json:"most_day"`
	Flags      int     `json:"flags"`
	Held       int     `json:"held"` // recipients held or refused, in every mail anew
}

// A ReachCurve is how the number of different recipients of a user grew.
type ReachCurve struct {
	User string    `json:"user"`
	Day  []float64 `json:"day"`   // days from the start of the log
	Sum  []float64 `json:"count"` // different recipients until then
}

// A Threshold is how often users are flagged under one.
type Threshold struct {
	Threshold    string   `json:"threshold"`
	Flags        int      `json:"flags"`
	FlagsMonthly float64  `json:"flags_100_users_month"`
	FlagsRange   Interval `json:"flags_100_users_month_95"` // exact Poisson
	// new recipients, for each stolen account; -1: never; 0: flagged already
	FoundAfter []int `json:"found_after,omitempty"`
}

// Stolen is an account that was made to write to new people from a time on, to see when it is found.
type Stolen struct {
	User       string  `json:"user"`
	PerHour    float64 `json:"per_hour"`
	FoundAfter int     `json:"found_after"`       // new recipients; -1: never; 0: flagged already
	After      float64 `json:"after_s"`           // -1: never
	Problem    string  `json:"problem,omitempty"` // why it says nothing: nothing to steal, or flagged already
}

// Advice is which parameters keep the share of delayed mails under what was asked for, and what a virus would still get
// through with them.
type Advice struct {
	Share   float64      `json:"share"` // at most so many mails delayed
	Params  ParamsInfo   `json:"params"`
	Figures Figures      `json:"figures"`
	Met     bool         `json:"met"` // or nothing that was tried keeps it
	Virus   []VirusPoint `json:"virus"`
	Text    []string     `json:"text"`   // in sentences
	Config  string       `json:"config"` // for weir.yaml
}

// A VirusPoint is what becomes of a virus that sends at a rate.
type VirusPoint struct {
	Rate         float64 `json:"rate"`   // mails a minute
	Passed       int     `json:"passed"` // recipients, until it was stopped
	Held         int     `json:"held"`
	PassedNew    int     `json:"passed_new"`      // those of them that the user had not written to
	StoppedAfter float64 `json:"stopped_after_s"` // -1: never
}

// MaxWorst is how many users are listed.
const MaxWorst = 50
