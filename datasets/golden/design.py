"""The world of makers: a client and a designer who settle screens, systems, objects and rooms in talk."""

SYSTEM = [
    "You are a designer working with {p0} on {repo}. Think aloud, propose, and keep the specification current.",
    "You advise {p0} on the design in {repo}. Be concrete: give figures, names and reasons.",
    "You are the design partner of the team {repo}. You may use the board tools to look things up and to write the specification.",
]
TOOLS = [("board", "Show a part of the board.", ["topic"]), ("write_spec", "Write a line of the specification.", ["section", "text"]), ("render", "Make a preview.", ["what"])]
OPENING = ["I would like us to {goal}. «I have no idea where to start.|{p1} made a first sketch, forget it.»", "We want to {goal}, and I was told you are the right one. «Shall we?|Where do we begin?»",
           "The job: {goal}. «We have room for ideas.|Please be bold.»"]
CHANGE = ["{p1} saw it and wants something else: we should {goal}. «Put the first idea aside.|The first idea is parked.»", "Let us turn around: {goal}, that is the job from now on.", "After the meeting the job is another one: {goal}."]
BACK = ["{p1} gave in. We are back at the first job: {goal}.", "Well, the first idea was the better one, so again: {goal}."]

PLOTS = [
    {"name": "screens", "families": "colour frame screen date quote length", "thing": "the new screens",
     "goals": ["redesign the {c0} screen for old people", "make the {c1} form shorter", "give the {c2} page a calmer look", "turn the {c0} table into cards", "design the empty state of {c3}", "sketch a night mode for {c1}", "merge the two {c2} menus"],
     "plan": ["collect what annoys people in {c0}", "sort the fields of {c1}", "draw three rough layouts", "choose the type", "build the {c2} prototype", "test with five people", "write the hand-over"]},
    {"name": "system", "families": "service frame quote date screen colour", "thing": "the new system",
     "goals": ["lay out a {c0} service that survives a lost region", "split the {c1} monolith", "design the {c2} event flow", "plan the storage of {c0} pictures", "draft an interface for {c3} partners", "replace the nightly {c1} batch", "keep {c2} readers away from the writers"],
     "plan": ["list the loads on {c0}", "draw the boundaries of {c1}", "choose the stores", "describe the failure of {c2}", "estimate the bill", "plan the first cut", "write the decision record"]},
    {"name": "object", "families": "part length quote colour date frame", "thing": "the first batch",
     "goals": ["design a case for the {c0} sensor", "make the {c1} lamp foldable", "find a quieter hinge for the {c2} lid", "fit the {c0} board into a smaller shell", "draw a stand for the {c3} speaker", "replace the glue in the {c1} handle", "make the {c2} bottle stackable"],
     "plan": ["measure the {c0} board", "choose the material", "place the screws", "draw the seal of {c1}", "ask two workshops for quotes", "print the {c2} sample", "write the drawing notes"]},
    {"name": "room", "families": "length part quote date colour frame", "thing": "the exhibition",
     "goals": ["lay out the {c0} exhibition", "design the path through the {c1} hall", "find places for the {c2} cases", "light the {c0} room without glare", "make the {c3} corner work for children", "plan the {c1} opening night", "turn the {c2} cellar into a workshop"],
     "plan": ["walk the rooms", "list the {c0} pieces", "draw the path", "place the {c1} lights", "order the cases", "check the exits", "write the plan for the crew"]},
    {"name": "garden", "families": "length quote date part colour frame", "thing": "the courtyard",
     "goals": ["plan the {c0} courtyard for dry summers", "replace the {c1} lawn", "find shade for the {c2} benches", "lead the rain of the {c0} roof into a pond", "design a {c3} path for wheelchairs", "draw the beds along the {c1} wall", "save the old {c2} tree"],
     "plan": ["test the soil at {c0}", "follow the sun for a day", "draw the water", "choose the plants for {c1}", "count the stones", "plan the {c2} planting week", "write the care sheet"]},
]

FAMILIES = [
    {"key": "colour", "gen": "colour", "noun": "colour",
     "ents": ["the warning banner", "the main button", "the quiet background", "the map water", "the price tag", "the night sky panel"],
     "says": ["{e} was painted in {v} on the last board", "brand sheet: {v} for {e}, never lighter", "{p2} mixed {v} for {e} and everybody nodded", "{e} keeps {v} from the old leaflet"],
     "ask": "Which colour does {e} have?", "anew": "The printer complained, so {e} becomes {v}.",
     "uses": [("I set {e} in the specification.", "write_spec", {"section": "colours", "text": "{v}"}, "saved"), ("A preview of {e}.", "render", {"what": "swatch {v}"}, "preview {n3} ready")],
     "replies": ["I put {e} next to the text in its {v}; the two get along well."]},
    {"key": "frame", "gen": "frame", "noun": "frame",
     "ents": ["the first sketch", "the approved layout", "the phone version", "the version of {p2}", "the printed poster", "the animated intro"],
     "says": ["{e} lies on the board as {v}, top row", "comments on {v} concern {e}, mostly praise", "{v} is {e}, locked by the owner", "whoever searches {e} finds it as {v} behind the archive"],
     "ask": "Which frame is {e}?", "anew": "The board was cleaned up, {e} is {v} now.",
     "uses": [("I open {e}.", "board", {"topic": "{v}"}, "{n1} layers, last change by {p4}"), ("I base the preview on {e}.", "render", {"what": "copy of {v}"}, "preview {n3} ready")],
     "replies": ["I start from {e}, so from {v}, and leave the rest alone."]},
    {"key": "part", "gen": "part", "noun": "part number",
     "ents": ["the short hinge", "the clear lens", "the dark felt", "the corner bracket", "the floor plug", "the soft foot"],
     "says": ["the catalogue of {vendor1} lists {e} as {v}, in stock", "{e} is {v}, sold by the dozen", "{p3} ordered {v} last time, that was {e}", "sample bag: {e}, marked {v} with a pen"],
     "ask": "Which part number has {e}?", "anew": "{vendor1} replaced it: {e} is {v} from now on.",
     "uses": [("I enter {e} in the list of parts.", "write_spec", {"section": "parts", "text": "{v}, {n1} pieces"}, "saved"), ("Is {e} on the board?", "board", {"topic": "part {v}"}, "{n1} notes, one photograph")],
     "replies": ["For the list of parts: {e}, {v}, {n1} pieces should do."]},
    {"key": "length", "gen": "mm", "noun": "measure",
     "ents": ["the depth of the shelf", "the gap under the door", "the height of the rail", "the wall of the shell", "the width of the path", "the step at the entrance"],
     "says": ["{p2} measured {v} for {e} with a steel rule", "in the survey {e} is given with {v}, rounded", "{v} is what I have for {e} from the old drawing", "{e} comes to {v} once the plaster is on"],
     "ask": "How much is {e}?", "anew": "I measured again, {e} is {v}.",
     "uses": [("I draw {e}.", "write_spec", {"section": "measures", "text": "{v} clear"}, "saved"), ("A section through {e}.", "render", {"what": "section, {v}"}, "preview {n3} ready")],
     "replies": ["With {v} for {e} we have just enough room for the cable."]},
    {"key": "quote", "gen": "money", "noun": "price",
     "ents": ["the glass cases", "the printed wall", "the oak version", "the rented lights", "the sample run", "the stone edging"],
     "says": ["{vendor2} wants {v} for {e}, valid until the holidays", "the quote for {e} came in at {v}, delivery extra", "last year {e} cost {v}, says the binder", "{v} was the lowest bid for {e} we got"],
     "ask": "Which price was given for {e}?", "anew": "{vendor2} sent a new quote: {e} at {v}.",
     "uses": [("I add the price of {e} to the estimate.", "write_spec", {"section": "estimate", "text": "{v}"}, "saved")],
     "replies": ["In the estimate {e} stands with {v}; that leaves something for surprises.", "So {v} for {e}. Expensive, but it lasts."]},
    {"key": "screen", "gen": "px", "noun": "width",
     "ents": ["the side panel", "the narrow layout", "the picture strip", "the reading column", "the dialogue window", "the header on tablets"],
     "says": ["{e} was laid out with {v} in the prototype", "style guide: {v} for {e}, no exceptions", "on the old board {e} measures {v} across", "{p3} tried {v} for {e} and liked it"],
     "ask": "How wide is {e}?", "anew": "After the test {e} is to be {v} wide.",
     "uses": [("I fix {e} in the specification.", "write_spec", {"section": "grid", "text": "{v}"}, "saved"), ("Let me see {e} at its width.", "render", {"what": "layout at {v}"}, "preview {n3} ready")],
     "replies": ["If {e} has {v}, a line holds about sixty letters, which reads well."]},
    {"key": "service", "gen": "host", "noun": "name",
     "ents": ["the write store", "the read store", "the queue in the middle", "the picture store", "the partner gate", "the audit store"],
     "says": ["in the sketch {e} is called {v}, behind the wall", "{e} runs as {v} today and is half empty", "the operators know {e} as {v}, two machines", "legend of the drawing: {v} means {e}"],
     "ask": "What is {e} called?", "anew": "Operations renamed {e}; it is {v}.",
     "uses": [("I draw {e} into the plan.", "write_spec", {"section": "parts of the system", "text": "{v}"}, "saved"), ("What do we know of {e}?", "board", {"topic": "{v}"}, "{n2} % busy at noon")],
     "replies": ["Then the arrow goes from the entrance to {v}, since {e} has to see it first."]},
    {"key": "date", "gen": "date", "noun": "day",
     "ents": ["the visit of the carpenter", "the paint test", "the vote of the board", "the rehearsal", "the delivery of the panels", "the photo session"],
     "says": ["{e} is set for {v}, early", "in the calendar {e} stands on {v}", "{p2} fixed {e} for {v} with the porter", "{v} was the only free day for {e}"],
     "ask": "On which day is {e}?", "anew": "{e} had to be moved to {v}.",
     "uses": [("I put {e} into the schedule.", "write_spec", {"section": "schedule", "text": "{v}"}, "saved")],
     "replies": ["Then everything must be dry before {v}, when {e} takes place."]},
]

DECISIONS = [
    {"topic": "the material", "options": [("birch plywood", "it forgives moisture"), ("anodised metal", "it can be recycled in town"), ("pressed cork", "it swallows noise"), ("clay brick", "the mason is already here"), ("bamboo board", "it arrives in flat boxes")]},
    {"topic": "the arrangement", "options": [("a loop", "nobody meets a dead end"), ("a comb", "one can leave at each tooth"), ("a star", "the guard sees everything"), ("a long line", "the story has an order"), ("islands", "groups do not block each other")]},
    {"topic": "the store", "options": [("a relational store", "the accounts must balance"), ("a log of events", "one can replay a bad day"), ("plain files", "the archive has to outlive us"), ("a document store", "the forms change weekly"), ("a key-value store", "all questions are by key")]},
    {"topic": "the lettering", "options": [("a slab serif", "the letters survive bad printing"), ("a humanist sans", "it reads well from afar"), ("a monospace", "the figures line up"), ("hand lettering", "children trust it"), ("a condensed face", "the names are long")]},
    {"topic": "opening the thing", "options": [("a magnet", "nothing wears out"), ("a bayonet catch", "gloves can turn it"), ("two screws", "children cannot open it"), ("a zip", "it costs next to nothing"), ("a sliding lid", "it stays attached")]},
    {"topic": "showing the state", "options": [("a single lamp", "it can be seen from the street"), ("a short word", "colours mean nothing to some"), ("a sound", "hands are busy there"), ("a moving bar", "people wait more calmly"), ("a change of shape", "fingers can feel it in the dark")]},
]
WEIGH = ["About {topic}: what is possible?", "We have to talk about {topic}.", "Now {topic}. I saw some ways:"]
DECIDE = ["Let us take {o}, because {r}.", "Decided: {o}, since {r}.", "I choose {o}; {r}."]
DECIDE_ODD = ["I slept on it and woke up with {o}: {r}.", "My vote, and mine counts double here, goes to {o}; {r}."]

ASK = ["I went through my notes:", "From the visit I brought this home.", "Here is what the others say.", "You asked for facts.", "The binder on my desk says the following.", "I made some calls.", "Some figures for you:"]
PLANT = [("I look at the board.", "board", {"topic": "{w0} notes"}, "doc"), ("The board may have it.", "board", {"topic": "{w1}"}, "records"), ("I look through the comments.", "board", {"topic": "comments on {w2}"}, "doc"),
         ("The workshop left a protocol, I open it.", "board", {"topic": "protocol {w1}"}, "doc"), ("I look at the cards in the {a0} column.", "board", {"topic": "{a0} column"}, "records"), ("There is a list from the suppliers.", "board", {"topic": "suppliers {w0}"}, "records")]
WORK = {
    "explore": [("What do others do in such a case?", "I look at earlier work.", "board", {"topic": "{w0} examples"}, "spec"), ("Show me what we have.", "Here is the board.", "board", {"topic": "{w1} drafts"}, "spec")],
    "implement": [("Draw it, please.", "A first drawing.", "render", {"what": "{a0} {w0}"}, "preview"), ("Write that down for the crew.", "Into the specification.", "write_spec", {"section": "{w2}", "text": "{a0} {w1}, as discussed"}, "ok")],
    "refactor": [("The specification has become a jungle.", "I put its sections in order.", "write_spec", {"section": "contents", "text": "{w0}, {w1}, {w2}"}, "ok")],
    "debug": [("It looks wrong, but why?", "I look at the layers one by one.", "board", {"topic": "layers of the {w1}"}, "spec"), ("The preview is all {a0}.", "I make it again without the {w2}.", "render", {"what": "{w0} without {w2}"}, "preview_failed")],
    "verify": [("Does it hold together?", "I hold it against the notes of the workshop.", "board", {"topic": "workshop {w0}"}, "spec"), ("Can we see it once more, as a whole?", "The whole, then.", "render", {"what": "overview with {w1}"}, "preview")],
    "document": [("Could you sum up this part?", "I write it into the record.", "write_spec", {"section": "record", "text": "the {a0} {w0} stays"}, "ok")],
}
TALK = [("I like the {a0} ones best, I think.", "They have charm. But beside the {w0} they look tired; I would use one at most."),
        ("Must it be so {a0}?", "No. It can also be plain, if the {w1} carries the weight."),
        ("My daughter says it looks like a {w0}.", "Children see these things. We could turn the {w1} a little."),
        ("What would you do if it were yours?", "I would take away the {w0}, then look again, then take away the {w1}."),
        ("I saw something in {place0}, all {a0} and light.", "I know it. It works there because of the {w0}; here the {w1} would spoil it."),
        ("Is there a rule for that?", "A loose one: the {w0} leads, the {w1} follows."),
        ("Nobody will notice that.", "Nobody will name it, but they will feel that the {w0} is {a0}."),
        ("Could it be bigger?", "It could, and then the {w1} has to go. «Your choice.|I would not.»"),
        ("I showed it to {p3}, who said nothing for a minute.", "A good sign, in my experience with {w0} people.")]
DONE = ["This part stands: {item}.", "«Good|Fine», we have that: {item}.", "I tick it off, {item}."]
FINISH = ("The design is complete; I close the record.", "write_spec", "ok")
PLAN = ["ask {p1} for a veto",
        "make a model out of paper",
        "look at it in daylight",
        "list what can be left out",
        "show it to {p3}",
        "check the rules of {place0}",
        "settle the order of work",
        "photograph the result"]
