package strictjson

import (
	"slices"
	"strings"
)

// object checks the object at pos. What is wrong is reported in the order of the
// schema's fields, whatever the order in the body, and unknown fields at last.
func (s *scanner) object(as *Schema, depth int) error {
	s.pos++ // {
	o := objectCheck{scanner: s, as: as, before: len(s.problems)}
	s.path = append(s.path, step{})
	for s.next() != '}' {
		key, err := s.key()
		if err != nil {
			return err
		}
		if key == nil {
			key = []byte{}
		}
		s.path[len(s.path)-1].key = key
		inside, err := o.enter(key)
		if err != nil {
			return err
		}
		s.next()
		s.pos++ // :
		if err := s.value(inside, depth+1); err != nil {
			return err
		}
		o.leave()
		if s.next() == ',' {
			s.pos++
		}
	}
	s.pos++ // }
	s.path = s.path[:len(s.path)-1]
	o.finish()
	return nil
}

// objectCheck is what is known of one object until its end.
type objectCheck struct {
	*scanner
	as     *Schema
	before int // how many problems there were

	count int
	known uint64          // the fields that were there, by their index
	names map[string]bool // the other names that were there

	rank  int      // of the field whose value is read
	found []ranked // problems so far
}

// ranked is what is wrong with one field.
type ranked struct {
	rank     int
	problems []Problem
}

// unknown is behind all fields.
const unknown = maxFields + 1

// enter is called for each key, and returns what its value must be.
func (o *objectCheck) enter(key []byte) (*Schema, error) {
	o.count++
	o.rank = unknown
	if i := o.as.fieldIndex(key); i >= 0 {
		o.rank = i
		if twice := o.known&(1<<i) != 0; twice && !o.lenient {
			return nil, o.refuse("appears twice")
		}
		o.known |= 1 << i
		return o.as.Fields[i].Schema, nil
	}
	name := string(key)
	if o.names[name] && !o.lenient {
		return nil, o.refuse("appears twice")
	}
	if o.names == nil {
		o.names = make(map[string]bool)
	}
	o.names[name] = true
	if o.as == nil || o.as.Kind == Any {
		return nil, nil
	}
	if o.as.Closed {
		place := o.place()
		o.problems = append(o.problems, Problem{place, "is not a field of this request" + Suggestion(name, o.as.names())})
		return nil, nil
	}
	return o.as.Rest, nil
}

// leave is called behind each value.
func (o *objectCheck) leave() { o.set(o.rank, o.before) }

// set moves the problems from index on to those of a field.
func (o *objectCheck) set(rank, from int) {
	if len(o.problems) > from {
		o.found = append(o.found, ranked{rank, slices.Clone(o.problems[from:])})
		o.problems = o.problems[:from]
	}
}

// finish reports all that is wrong with the object.
func (o *objectCheck) finish() {
	if o.as == nil || o.as.Kind == Any {
		return
	}
	for i, field := range o.as.Fields {
		if field.Required && o.known&(1<<i) == 0 && !o.hasOtherCase(field.Name) {
			o.path = append(o.path, step{key: []byte(field.Name)})
			o.problems = append(o.problems, Problem{o.place(), Required})
			o.path = o.path[:len(o.path)-1]
			o.set(i, o.before)
		}
	}
	for _, duty := range o.as.checkCount(o.count) {
		o.report(duty)
	}
	slices.SortStableFunc(o.found, func(a, b ranked) int { return a.rank - b.rank })
	for _, r := range o.found {
		o.problems = append(o.problems, r.problems...)
	}
}

// hasOtherCase reports whether a field that is missing is there in other letters,
// which is what its problem says then.
func (o *objectCheck) hasOtherCase(name string) bool {
	for other := range o.names {
		if strings.EqualFold(other, name) {
			return true
		}
	}
	return false
}
