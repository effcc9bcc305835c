// Package settings reads the configuration file of bperf serve.
package settings

import (
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v2"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/pattern"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/serve/kubelet"
	"github.com/bperf/bperf/internal/serve/push"
	"github.com/bperf/bperf/internal/symbol/debuginfod"
	"github.com/bperf/bperf/internal/userfile"
)

// Text is the configuration file with each key, its default, and what it means.
//
//go:embed default.yml
var Text string

// Settings are the keys of the file.
type Settings struct {
	Listen      []string   `yaml:"listen"`
	Insecure    bool       `yaml:"insecure"`
	WebConfig   string     `yaml:"web_config"` // a path, or "" for no file
	Hosts       []string   `yaml:"hosts"`
	Roles       Roles      `yaml:"roles"`
	Events      []string   `yaml:"events"`
	SeriesLimit int        `yaml:"series_limit"`
	Kubelet     Kubelet    `yaml:"kubelet"`
	Statistics  Statistics `yaml:"bpf_statistics"`
	Inside      Inside     `yaml:"inside"`

	Profile Profile       `yaml:"profile"`
	Push    []push.Config `yaml:"push"`

	Debuginfod []string `yaml:"debuginfod"` // URLs of servers

	MetricsEvery time.Duration `yaml:"metrics_every"`

	Budget Budget `yaml:"budget"`

	Sessions Sessions `yaml:"sessions"`

	Log Log `yaml:"log"`
}

// Kubelet says which kubelet is asked for the names of pods: see kubelet.Config.
type Kubelet struct {
	URL        string        `yaml:"url"` // "" for none
	TokenFile  string        `yaml:"token_file"`
	CA         string        `yaml:"ca_file"`
	ServerName string        `yaml:"server_name"`
	Every      time.Duration `yaml:"every"`
}

func (k Kubelet) check() error {
	config := kubelet.Config(k)
	if err := config.Check(); err != nil {
		return fmt.Errorf("kubelet: %w", err)
	}
	return nil
}

// Inside says what is counted inside BPF programs.
type Inside struct {
	Programs string   `yaml:"programs"` // "" for none
	Events   []string `yaml:"events"`
}

func (i *Inside) check() error {
	if i.Programs == "" {
		return nil
	}
	if _, err := bpfprog.Parse(i.Programs); err != nil {
		return fmt.Errorf("inside: programs: %w", err)
	}
	return checkEvents(i.Events, "inside: ")
}

// Profile is the profile of the whole machine.
type Profile struct {
	Event     string        `yaml:"event"` // "" for none
	Frequency uint64        `yaml:"frequency"`
	OffCPU    bool          `yaml:"offcpu"`
	Every     time.Duration `yaml:"every"`
}

// On reports whether the profile is taken.
func (p *Profile) On() bool { return p.Event != "" || p.OffCPU }

// Sessions are the limits of sessions from afar.
type Sessions struct {
	AtOnce  int           `yaml:"at_once"`
	Longest time.Duration `yaml:"longest"`
	Bytes   int64         `yaml:"bytes"` // that a session may send
}

func (s Sessions) check() error {
	if s.AtOnce < 1 || s.AtOnce > maxSessions {
		return fmt.Errorf("sessions: at_once is %d, and must be from 1 to %d", s.AtOnce, maxSessions)
	}
	if s.Longest < time.Second || s.Longest > 24*time.Hour {
		return fmt.Errorf("sessions: longest is %v, and must be from 1s to 24h", s.Longest)
	}
	if s.Bytes < 1 {
		return fmt.Errorf("sessions: bytes is %d, and must be at least 1", s.Bytes)
	}
	return nil
}

// Roles says which client has which roles.
type Roles struct {
	Loopback     RoleSet            `yaml:"loopback"`
	Unix         RoleSet            `yaml:"unix"`
	Insecure     RoleSet            `yaml:"insecure"`
	Users        map[string]RoleSet `yaml:"users"`
	Certificates map[string]RoleSet `yaml:"certificates"`
}

// RoleSet is a set of roles.
type RoleSet uint8

// The roles.
const (
	Metrics RoleSet = 1 << iota // may read the metrics
	Read                        // may read profiles
	Record                      // may run sessions
)

// AnyRole has all roles.
const AnyRole = Metrics | Read | Record

// UnmarshalYAML reads a list of roles.
func (r *RoleSet) UnmarshalYAML(unmarshal func(any) error) error {
	var names []string
	if err := unmarshal(&names); err != nil {
		return err
	}
	*r = 0
	for _, name := range names {
		switch name {
		case "metrics":
			*r |= Metrics
		case "read":
			*r |= Read
		case "record":
			*r |= Record
		default:
			return fmt.Errorf("unknown role %q: the roles are metrics, read and record", name)
		}
	}
	return nil
}

// Statistics says when the kernel measures the runs of BPF programs: for On, once in Every.
type Statistics struct {
	On    time.Duration `yaml:"on"`
	Every time.Duration `yaml:"every"`
}

// Log says what is logged, and how.
type Log struct {
	Level  slog.Level `yaml:"-"`
	Format string     `yaml:"format"` // logfmt or json

	LevelName string `yaml:"level"`
}

// maxFile is the limit of a configuration file, in bytes.
const maxFile = 64 << 10

// Default returns the settings without a file.
func Default() *Settings {
	s, err := Parse(nil)
	if err != nil {
		panic(err) // cannot happen: a test parses the defaults
	}
	return s
}

// Load reads the file at path, or returns the defaults if path is empty. Paths in the file are relative to its directory.
func Load(path string) (*Settings, error) {
	if path == "" {
		return Default(), nil
	}
	file, err := userfile.Read(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	s, err := Parse(file.Data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s.resolve(filepath.Dir(path))
	return s, nil
}

// resolve makes the paths of files relative to a directory.
func (s *Settings) resolve(dir string) {
	in := func(path string) string {
		if path == "" || filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(dir, path)
	}
	s.WebConfig = in(s.WebConfig)
	s.Kubelet.TokenFile, s.Kubelet.CA = in(s.Kubelet.TokenFile), in(s.Kubelet.CA)
	for i := range s.Push {
		to := &s.Push[i]
		to.TLS.CA, to.TLS.Cert, to.TLS.Key = in(to.TLS.CA), in(to.TLS.Cert), in(to.TLS.Key)
		for header, file := range to.HeaderFiles {
			to.HeaderFiles[header] = in(file)
		}
	}
}

// Parse parses the content of a file. Keys that it does not have keep their defaults.
func Parse(data []byte) (*Settings, error) {
	s := new(Settings)
	if err := yaml.UnmarshalStrict([]byte(Text), s); err != nil {
		return nil, fmt.Errorf("the defaults: %w", err)
	}
	if err := yaml.UnmarshalStrict(data, s); err != nil {
		return nil, readable(err)
	}
	if err := s.Check(); err != nil {
		return nil, err
	}
	return s, nil
}

// unknownKey, repeatedKey and section match what package yaml writes with names of Go types.
var (
	unknownKey  = pattern.Lazy(`field (.*) not found in type settings\.\w+`)
	repeatedKey = pattern.Lazy(`field (.*) already set in type settings\.\w+`)
	section     = pattern.Lazy(`settings\.\w+`)
)

// readable returns an error of package yaml without names of Go types.
func readable(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if wrong := (*yaml.TypeError)(nil); errors.As(err, &wrong) {
		text = strings.Join(wrong.Errors, "; ")
	}
	text = unknownKey().ReplaceAllString(text, "unknown key $1: bperf serve --print-config shows all keys")
	text = repeatedKey().ReplaceAllString(text, "key $1 is set twice")
	return errors.New(printable.Text(section().ReplaceAllString(text, "a section")))
}

// Limits of values.
const (
	maxEvents    = 64
	maxSeries    = 1_000_000
	maxFrequency = 999
	maxPushes    = 16
	maxSessions  = 32 // of the 64 requests at once
)

// Check checks the values, and sets Budget.Limits and Log.Level.
func (s *Settings) Check() error {
	if len(s.Listen) == 0 {
		return errors.New("listen: there is no address: name at least one, such as 127.0.0.1:9465")
	}
	for _, a := range s.Listen {
		if err := checkAddress(a); err != nil {
			return fmt.Errorf("listen: %w", err)
		}
	}
	if err := checkEvents(s.Events, ""); err != nil {
		return err
	}
	if err := s.Inside.check(); err != nil {
		return err
	}
	if s.SeriesLimit < 1 || s.SeriesLimit > maxSeries {
		return fmt.Errorf("series_limit: %d is not between 1 and %d", s.SeriesLimit, maxSeries)
	}
	if err := s.Kubelet.check(); err != nil {
		return err
	}
	if s.Statistics.On < time.Millisecond || s.Statistics.Every < s.Statistics.On {
		return fmt.Errorf("bpf_statistics: on must be at least 1ms, and at most every: on is %v, every is %v",
			s.Statistics.On, s.Statistics.Every)
	}
	if f := s.Profile.Frequency; f < 1 || f > maxFrequency {
		return fmt.Errorf("profile: the frequency %d is not between 1 and %d", f, maxFrequency)
	}
	if s.Profile.Every < time.Second || s.Profile.Every > time.Hour {
		return fmt.Errorf("profile: every is %v, and must be from 1s to 1h", s.Profile.Every)
	}
	for _, server := range s.Debuginfod {
		if _, err := debuginfod.ParseURL(server); err != nil {
			return fmt.Errorf("debuginfod: %w", err)
		}
	}
	if n := len(s.Push); n > maxPushes {
		return fmt.Errorf("push: there are %d servers: at most %d are possible", n, maxPushes)
	}
	if !s.Profile.On() && slices.ContainsFunc(s.Push, func(c push.Config) bool { return c.Kind != push.MetricsKind }) {
		return errors.New("push: there is no profile to push: set profile.event or profile.offcpu")
	}
	if s.MetricsEvery < time.Second || s.MetricsEvery > time.Hour {
		return fmt.Errorf("metrics_every: %v is not from 1s to 1h", s.MetricsEvery)
	}
	if err := s.Budget.parse(); err != nil {
		return fmt.Errorf("budget: %w", err)
	}
	if err := s.Sessions.check(); err != nil {
		return err
	}
	if err := s.Log.Level.UnmarshalText([]byte(s.Log.LevelName)); err != nil {
		return fmt.Errorf("log: unknown level %q: debug, info, warn and error are possible", printable.Text(s.Log.LevelName))
	}
	if s.Log.Format != "logfmt" && s.Log.Format != "json" {
		return fmt.Errorf("log: unknown format %q: logfmt and json are possible", printable.Text(s.Log.Format))
	}
	return nil
}

// checkEvents checks a list of events. Errors begin with the name of its section.
func checkEvents(events []string, section string) error {
	if n := len(events); n > maxEvents {
		return fmt.Errorf("%sevents: there are %d: at most %d are possible", section, n, maxEvents)
	}
	if slices.Contains(events, "") {
		return fmt.Errorf("%sevents: a name is empty", section)
	}
	return nil
}

// maxSocketPath is the longest path of a Unix socket: sun_path of unix(7) has 108 bytes with the terminating 0.
const maxSocketPath = 107

func checkAddress(address string) error {
	if path, is := strings.CutPrefix(address, "unix:"); is {
		if !filepath.IsAbs(path) || len(path) > maxSocketPath {
			return fmt.Errorf("%q: the path of a socket begins with / and has at most %d bytes", address, maxSocketPath)
		}
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not HOST:PORT or unix:PATH: %w", address, err)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q: the port is not a number from 0 to 65535", address)
	}
	return nil
}
