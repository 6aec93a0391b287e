"""The world of help desks: a customer talks, the agent looks things up and acts."""

SYSTEM = [
    "You are the support agent of {vendor0}. Use the tools for facts; never guess. Be polite and brief.",
    "You answer customers of {vendor0}. Policy: verify before you change anything, and say what you did.",
    "You work at the help desk {repo}. Tools: lookup, update, search_policy, send. Keep the customer informed.",
]
TOOLS = [("lookup", "Find a record.", ["query"]), ("update", "Change a record.", ["record", "change"]), ("search_policy", "Search the handbook.", ["query"]),
         ("send", "Send something to the customer.", ["what"])]
OPENING = ["Hello, I hope you can {goal}. «I have been trying for days.|It is rather urgent.»", "Good «morning|evening», could you please {goal}?",
           "Hi! «My name is {p1}.|{p1} here.» I want you to {goal}. «Is that possible?|Nobody could help so far.»"]
CHANGE = ["Wait, forget that. I talked to {p2} and now I would rather have you {goal}.", "Actually no. What I want instead: {goal}, please.", "Something came up. Leave the first thing and {goal}."]
BACK = ["{p2} and I slept over it. Please do {goal} after all, as I asked first.", "Sorry for the confusion, the first wish stands again: {goal}."]

PLOTS = [
    {"name": "broadband", "families": "serial case code price parcel order", "thing": "the repair",
     "goals": ["get the {c0} line in my house working", "move my {c1} contract to the new flat", "cancel the {c2} option", "find out why my {c0} bill doubled", "give my mother's {c1} phone its old number back",
               "stop the calls of the {c3} dealer", "swap the {c2} router"],
     "plan": ["measure the line", "check the {c0} box", "reset the exchange port", "book the technician", "credit the lost days", "confirm the new {c1} rate", "close the complaint"]},
    {"name": "shop", "families": "order parcel price case serial room", "thing": "the replacement",
     "goals": ["send the {c0} lamp that I ordered", "take back the broken {c1} chair", "find my lost {c2} parcel", "change the address of my {c0} order", "refund the {c3} set that came twice", "tell me when {c1} is in stock",
               "repair the {c2} under warranty"],
     "plan": ["find the order", "check the photographs", "ask the {c0} warehouse", "print the return label", "ship the substitute", "pay back the difference", "apologise with a voucher"]},
    {"name": "travel", "families": "flight room price case parcel order", "thing": "the trip",
     "goals": ["rebook my trip to {place0}", "get the four of us home from {place1}", "add a bicycle to the {c0} booking", "move the {c1} tour to autumn", "find a room near the {c2} fair", "cancel only my brother's {c0} ticket",
               "arrange a wheelchair for the {c3} ferry"],
     "plan": ["find the booking", "look for free seats", "hold the {c0} fare", "ask the hotel", "move the transfer", "collect the difference", "send the new papers"]},
    {"name": "accounts", "families": "case serial room code price order", "thing": "the migration",
     "goals": ["bring back the {c0} mailbox", "give the new colleagues access to {c1}", "find who deleted the {c2} folder", "move our {c0} licences to {place0}", "unlock the {c3} workspace", "stop the {c1} sync from eating files",
               "merge my two {c2} profiles"],
     "plan": ["check who asks", "read the audit trail", "restore the {c0} copy", "set the new roles", "test the login of {p2}", "inform the owner of {c1}", "file the report"]},
]

FAMILIES = [
    {"key": "order", "gen": "order", "noun": "number",
     "ents": ["the first delivery", "the replacement order", "the gift for {p3}", "the cancelled order", "the order of my neighbour", "the spare bulbs"],
     "says": ["the record of {e} has the number {v}, paid by card", "{e} runs under {v} since the weekend", "on the slip of {e} it says {v} in small print", "warehouse remark: {v} is {e}, second shelf"],
     "ask": "Which number has {e}?", "anew": "The shop wrote that {e} has the new number {v}.",
     "uses": [("Let me see where {e} is.", "lookup", {"query": "order {v}"}, "{\"state\": \"{a0}\", \"items\": {n1}}"), ("I change what you asked for {e}.", "update", {"record": "order {v}", "change": "customer wish noted"}, "{\"ok\": true}")],
     "replies": ["For {e} I have noted {v}, is that right? I go on with it in the meantime."]},
    {"key": "parcel", "gen": "parcel", "noun": "tracking code",
     "ents": ["the big box", "the return parcel", "the letter with the key", "the second attempt", "the parcel to {place0}", "the express bag"],
     "says": ["the label of {e} reads {v}, slightly torn", "carrier note: {e} travels as {v} by road", "{v} belongs to {e}, scanned on arrival", "my receipt for {e} shows {v} at the bottom"],
     "ask": "Which tracking code belongs to {e}?", "anew": "The carrier relabelled {e}, the code is {v} now.",
     "uses": [("I trace {e}.", "lookup", {"query": "parcel {v}"}, "{\"place\": \"{place1}\", \"event\": \"sorted\", \"hour\": {n1}}"), ("I send you the link for {e}.", "send", {"what": "tracking link for {v}"}, "{\"sent\": true}")],
     "replies": ["I have asked the carrier about {e}, that is {v}, and expect an answer soon."]},
    {"key": "serial", "gen": "serial", "noun": "serial number",
     "ents": ["the router in the hall", "the old router", "the repeater upstairs", "the box at my mother's", "the loan device", "the set in the office"],
     "says": ["the sticker of {e} says {v} below the bar code", "{e} is registered as {v}, warranty running", "I turned over {e} and found {v} printed there", "inventory lists {v} as {e}, grey housing"],
     "ask": "Which serial number has {e}?", "anew": "They exchanged {e}; the new one bears {v}.",
     "uses": [("I look at {e} from here.", "lookup", {"query": "device {v}"}, "{\"signal\": {n2}, \"state\": \"{a0}\"}"), ("I restart {e}.", "update", {"record": "device {v}", "change": "restart"}, "{\"ok\": true, \"seconds\": {n1}}")],
     "replies": ["To be sure about {e}: I have {v} written down for it and will use that."]},
    {"key": "case", "gen": "ticket", "noun": "case number",
     "ents": ["the complaint from spring", "the call of last week", "the report by {p2}", "the damage claim", "the chat with your colleague", "the letter to the director"],
     "says": ["{e} was filed as {v} by the night desk", "{v} is {e}, closed without a reason", "in your mail about {e} the subject line has {v}", "the system shows {e} under {v}, priority normal"],
     "ask": "Which case number has {e}?", "anew": "{e} was reopened under {v}, they told me.",
     "uses": [("I read {e} again.", "lookup", {"query": "case {v}"}, "{\"notes\": \"customer was {a0}\", \"calls\": {n1}}"), ("I add today's steps to {e}.", "update", {"record": "case {v}", "change": "steps added"}, "{\"ok\": true}")],
     "replies": ["I will quote {v} when I write to the team about {e}."]},
    {"key": "price", "gen": "cents", "noun": "amount",
     "ents": ["the monthly fee", "the express surcharge", "the deposit", "the old invoice", "the exchange difference", "the disputed charge"],
     "says": ["on the bill {e} appears with {v} in the third row", "{e} was booked as {v}, visible in the account", "my bank shows {v} for {e}, taken twice", "tariff sheet: {e} comes to {v} including tax"],
     "ask": "How high is {e}?", "anew": "A corrected bill came: {e} is {v}.",
     "uses": [("I credit {e}.", "update", {"record": "account", "change": "credit {v}"}, "{\"ok\": true}"), ("I check {e} against the books.", "lookup", {"query": "booking {v}"}, "{\"found\": {n1}, \"state\": \"{a0}\"}")],
     "replies": ["Let me recap {e}: we speak of {v}, and I have passed it on to accounting."]},
    {"key": "flight", "gen": "flight", "noun": "connection",
     "ents": ["the morning ferry", "the flight home", "the train to {place0}", "the night coach", "the connection of {p3}", "the replacement bus"],
     "says": ["the timetable gives {v} for {e}, daily except Sundays", "{e} is sold as {v}, seats left", "the ticket for {e} shows {v} and a window seat", "departure board: {v}, which is {e}, ten minutes late"],
     "ask": "Which connection is {e}?", "anew": "The operator renumbered it, {e} is {v} now.",
     "uses": [("I look for seats on {e}.", "lookup", {"query": "seats {v}"}, "{\"free\": {n1}, \"class\": \"{a0}\"}"), ("I put you on {e}.", "update", {"record": "booking", "change": "add {v}"}, "{\"ok\": true}")],
     "replies": ["I keep two seats on {e}, that is {v}, until you decide."]},
    {"key": "room", "gen": "room", "noun": "room",
     "ents": ["the meeting at ten", "the storage for the bicycles", "the quiet guest room", "the service desk", "the lost-property office", "the training on Monday"],
     "says": ["the plan shows {e} in {v}, second door", "{e} was moved to {v} because of the painters", "you find {e} in {v}, ring twice", "booking sheet: {v} for {e}, key at the porter"],
     "ask": "In which room is {e}?", "anew": "{e} has been moved to {v}.",
     "uses": [("I reserve for {e}.", "update", {"record": "room {v}", "change": "reserve"}, "{\"ok\": true}"), ("I send the way to {e}.", "send", {"what": "directions to {v}"}, "{\"sent\": true}")],
     "replies": ["For {e} please go to {v}, somebody will wait for you there."]},
    {"key": "code", "gen": "code", "noun": "error code",
     "ents": ["the red lamp", "the endless restart", "the silent line", "the wrong password page", "the frozen screen", "the beeping at night"],
     "says": ["the handbook has {v} for {e}, cause often the cable", "{e} comes with {v} on the little display", "technicians write {v} when they mean {e}", "I noted {v} during {e}, before it went dark"],
     "ask": "Which error code goes with {e}?", "anew": "After the update {e} shows as {v}.",
     "uses": [("What does the handbook advise about {e}?", "search_policy", {"query": "{v}"}, "{n1} pages: {a0} first, then replace")],
     "replies": ["So {e} means {v}; that is a known matter and the cure is a new cable."]},
]

DECISIONS = [
    {"topic": "how to make it good", "options": [("a refund to the card", "it is quickest"), ("a voucher", "there is a bonus on top"), ("a new device", "the old one is out of production"), ("a repair on site", "nothing has to be packed"), ("a credit on the next bill", "no bank details are needed")]},
    {"topic": "the way of delivery", "options": [("the pick-up shop", "it is open late"), ("the neighbour", "somebody is always in"), ("the office address", "the porter signs"), ("a parcel locker", "no one needs to wait"), ("the courier by bicycle", "the street is closed to vans")]},
    {"topic": "the time of the visit", "options": [("early in the morning", "the baby sleeps later"), ("the lunch hour", "the landlord is there"), ("Saturday", "nobody works then"), ("late in the evening", "the shop has closed"), ("the first snow-free day", "the mast is icy")]},
    {"topic": "the new plan", "options": [("the small package", "the children have left"), ("the family package", "there are five of us"), ("the yearly payment", "two months are free"), ("the plan without a phone", "the old phone will do"), ("the student plan", "the card is valid until autumn")]},
    {"topic": "who gets access", "options": [("only the owner", "the auditors ask for it"), ("the whole team", "they rotate every week"), ("the deputy", "the owner travels"), ("an outside accountant", "the books are due"), ("a shared link", "it ends by itself")]},
]
WEIGH = ["About {topic}, what would you propose?", "I am not sure about {topic}. What is there?", "And {topic}? I cannot decide."]
DECIDE = ["Then I take {o}, because {r}.", "{o}, please, since {r}.", "We do it with {o}: {r}."]
DECIDE_ODD = ["Hm. My heart says {o}, and so does my head, {r}.", "Let it be {o}; you see, {r}."]

ASK = ["What else do you need from me?", "Here is what I found:", "I looked it up for you.", "This may matter:", "My papers say the following.", "I am reading this from the slips in front of me.", "Since you asked:"]
PLANT = [("I check our records.", "lookup", {"query": "{w0} history"}, "records"), ("Let me see the file.", "lookup", {"query": "file {w1}"}, "doc"), ("I ask the handbook.", "search_policy", {"query": "{w0} {a0}"}, "doc"),
         ("I go through the messages of the last weeks.", "lookup", {"query": "messages {w2}"}, "records"), ("The night desk left notes, I read them.", "lookup", {"query": "night desk {w1}"}, "log"),
         ("My colleague kept a file on the {w0} matter.", "lookup", {"query": "colleague {w0}"}, "doc")]
WORK = {
    "explore": [("Could you tell me how this usually goes?", "I look that up in the handbook.", "search_policy", {"query": "{w0} {w1}"}, "policy"),
                ("Is there anything in my file about it?", "I open your file.", "lookup", {"query": "file {w2}"}, "json"), ("What happened on your side yesterday?", "I check the event log.", "lookup", {"query": "events {w1}"}, "log")],
    "implement": [("Please go ahead.", "I enter it.", "update", {"record": "{w0} profile", "change": "{a0} {w1}"}, "ok"), ("Do it, then.", "One moment, I change the setting.", "update", {"record": "{w2} setting", "change": "{a0}"}, "ok_failed")],
    "refactor": [("My file is full of old entries, by the way.", "I tidy up the old entries.", "update", {"record": "old {w1} entries", "change": "archive"}, "ok")],
    "debug": [("It still does not work.", "Let me see where it stops.", "lookup", {"query": "trace {w0}"}, "log"), ("Now there is another message, something {a0}.", "I look for that message.", "search_policy", {"query": "{a0} message"}, "policy")],
    "verify": [("Has it gone through?", "I check whether it arrived.", "lookup", {"query": "state {w1}"}, "json"), ("Are you sure?", "I read it back from the system.", "lookup", {"query": "recent changes {w2}"}, "log")],
    "document": [("Could I have that in writing?", "I send you a summary of this part.", "send", {"what": "summary of the {a0} {w0} matter"}, "ok")],
}
TALK = [("How long have you been doing this job?", "For a while. «It is never dull.|Every day brings another riddle.» Let us see what is left."),
        ("Is that normal?", "It happens now and then, mostly when {w0} and {w1} meet. Nothing to worry about."),
        ("I do not understand what {w0} means.", "It is the {a0} part of the {w1}; you will not have to deal with it."),
        ("My neighbour says one should simply pull the plug.", "Often that helps, but here the {w1} would only start again."),
        ("Hello? Are you still there?", "Yes, I am here. The {w0} system is «slow|busy» today."),
        ("Do I have to be at home for this?", "Not for this step. For the {a0} {w0} perhaps, we shall see."),
        ("The handbook that came with it is in {w0} letters.", "I know, it is «dreadful|no great help». The part on {w1} is the only one that matters."),
        ("Will it be {a0} again afterwards?", "It should be, once the {w0} has settled. Give it an hour."),
        ("You were very patient with me.", "That is kind of you. We are nearly through with the {w1} part.")]
DONE = ["That is done: {item}.", "I have finished this step ({item}). «Next one.|Let us go on.»", "{item}: done and confirmed."]
FINISH = ("Everything is settled, and I close the case.", "send", "ok")
PLAN = ["speak to {p2} on the phone",
        "check the terms",
        "open a second case",
        "ask the supervisor",
        "read the last mails",
        "confirm the name on the contract",
        "offer a date",
        "write the summary"]
