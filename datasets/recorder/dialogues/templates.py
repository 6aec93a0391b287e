"""The three templates of the salience tests: same names and purposes as in the literature we follow, own text."""
from dialogue import Talk, tool

FOLDER = "templates"


def simple():
    """Four turns, one compression point, clear goal and constraints."""
    t = Talk("test-simple", "templates/test-simple", "You are a helpful planning assistant.")
    t.u("[[goal|Help me choose a database for our ticket system.]] [[constraint:C1:latency|Lookups must stay under 80 ms]], and [[constraint:C2:licence|only open-source licences are allowed]].")
    t.a("A few questions first: how much data, how many writers, and do you need joins? I find it useful to picture a normal Monday in your team when thinking about load.")
    t.u("[[fact|About 40 GB and 25 writers]], and yes, we join tickets with customers all the time. Mondays are wild, as everywhere.")
    t.a("[[decision|Then PostgreSQL rather than a document store, because of the joins.]] It is open source, and with an index on the ticket number lookups take a few milliseconds at that size.")
    t.u("Sounds good. [[fact|It has to run on Debian 12]], by the way; the rest of the machines are a zoo.")
    t.a("PostgreSQL 15 comes with Debian 12, so nothing has to be built.")
    t.point()
    t.u("Fine. What is the next step?")
    t.a("Set up PostgreSQL 15 on a Debian 12 test machine, load a copy of the 40 GB, and measure lookups with 25 writers against the limit of 80 ms.")
    t.probe("goal", "What is to be chosen?", "a database for a ticket system", "a message queue", "a cloud provider")
    t.probe("constraint", "Which limit holds for lookups?", "80 ms", "800 ms", "8 s")
    t.probe("decision", "Why PostgreSQL?", "because of the joins", "because of the price", "because of the licence only")
    return t


def edge_cases():
    """The goal changes, constraints are only implied, many items are alike, and one stretch holds nothing salient."""
    t = Talk("test-edge-cases", "templates/test-edge-cases", "You are a helpful assistant for a small web team.")
    t.u("[[goal|Draft a plan to move our blog to a static site generator.]]")
    t.a("Happy to. What do you use today?")
    t.u("[[fact|WordPress with 640 posts]]. I do the nightly builds on my old laptop, it [[constraint:C1:resources|has only 4 GB of memory]], you know.")
    t.a("Then the generator has to build 640 posts in 4 GB. A compiled one such as Hugo would do; those that keep all pages in memory might not.")
    t.u("My colleague reads with a screen reader, [[constraint:C2:accessibility|so she has to be able to use whatever we end up with]].")
    t.a("Noted: themes without proper headings are out.")
    t.point()
    # many salient items that say nearly the same
    t.u("About addresses: [[constraint:C3:urls|old links must keep working]].")
    t.a("[[decision|Redirects for every old address.]]")
    t.u("I mean, [[constraint:C4:urls|the old URLs must not break]].")
    t.a("[[decision|Yes, each old URL gets a redirect.]]")
    t.u("Really, [[constraint:C5:urls|every existing link has to go on working, all 640 of them]].")
    t.a("[[decision|All 640 old addresses get a redirect with status 301.]]")
    t.u("And the [[constraint:C6:urls|links from search engines must not end in a 404]].")
    t.a("They follow the same redirects.")
    t.point()
    # nothing salient in this stretch
    t.u("Hmm.")
    t.a("Take your time.")
    t.u("Sorry, the dog. He wants out whenever I sit down.")
    t.a("Dogs have a sense for that.")
    t.u("haha, true")
    t.a("Shall we go on?")
    t.u("Yes, sure.")
    t.a("Good.")
    t.point()
    # the goal changes
    t.u("Actually, I talked to the boss at lunch. [[goal|Forget the move: we stay with WordPress and make it faster instead.]] The limit is [[constraint:C7:latency|two seconds for the first page on a phone]].")
    t.a("Then the redirects are not needed any more. Two seconds on a phone: the first candidates are image sizes and a page cache.")
    t.u("[[constraint:C8:budget|No new paid plug-ins]], we have 14 already and nobody knows what half of them do.")
    t.a("[[decision|Step one is an inventory of the 14 plug-ins, step two a page cache, step three smaller images.]]")
    t.u("Good. The colleague from before still counts.")
    t.a("Of course: no lazy loading that hides the descriptions from a screen reader. Shall I write the list for the inventory?")
    t.u("Yes, please.")
    t.a("For each of the 14: name, purpose, last update, milliseconds it adds to the first page. What adds more than 100 ms and has no owner goes first; the sum has to bring the first page under two seconds without any paid plug-in.")
    t.superseded("goal", "static site generator", "WordPress")
    t.probe("goal", "What is the goal now?", "make WordPress faster", "move to a static site generator", "redirect all old links")
    t.probe("constraint", "Who must be able to use the site besides ordinary readers?", "a colleague with a screen reader", "the boss on a laptop", "a search engine only")
    t.probe("constraint", "Are new paid plug-ins allowed?", "no", "yes, up to 14", "yes, if they bring two seconds")
    t.probe("continuation", "What is the first step?", "an inventory of the plug-ins", "redirects with status 301", "smaller images")
    return t


def research():
    """A longer piece of research with three compression points and full ground truth; all sources and figures are invented."""
    tools = [tool("search_papers", "Search the library.", query="string"), tool("read_section", "Read a section of a source.", source="string", section="string"), tool("save_note", "Keep a note.", text="string")]
    t = Talk("research-synthesis-001", "templates/research-synthesis-001", "You are a research assistant. Work from the sources in the library, cite them by their key, and say when they disagree. The library is invented for this test.", tools)
    t.u("[[goal|Write a one-page synthesis on whether green roofs lower summer peak temperatures in apartment blocks, for the city council of Arnhavn.]] "
        "[[constraint:C1:sources|Use only studies with measurements, no pure simulations]], [[constraint:C2:recency|nothing from before 2012]], and [[constraint:C3:length|at most 600 words]]. The council meets on 18 June.")
    t.a("I start with an overview of the library, then read the measured studies, then compare them. I will list for each: place, years, number of buildings, effect.", "explore")
    t.t("First search.", "search_papers", {"query": "green roof indoor temperature measured"},
        '[{"key": "holt2014", "title": "Indoor climate under extensive green roofs: two summers in eleven blocks", "type": "measurement"}, {"key": "iwano2016", "title": "Roof greening and thermal comfort, an energy model", "type": "simulation"}, '
        '{"key": "perez2019", "title": "Peak temperatures on top floors before and after greening", "type": "measurement"}, {"key": "brandt2009", "title": "Grass on the roof: first measurements", "type": "measurement"}, '
        '{"key": "osei2021", "title": "Irrigated and dry green roofs in a heat wave", "type": "measurement"}, {"key": "lumley2018", "title": "Costs of green roofs over forty years", "type": "economics"}, '
        '{"key": "faure2020", "title": "City-scale cooling by roofs, a mesoscale model", "type": "simulation"}, {"key": "nagy2022", "title": "Top-floor complaints and roof type: a survey", "type": "survey"}]', "explore")
    t.a("By your rules iwano2016 and faure2020 drop out (simulations), and brandt2009 is too old. [[decision|Core sources: holt2014, perez2019 and osei2021]]; lumley2018 for costs and nagy2022 for the tenants' side, as background only.", "explore")
    t.t("I read the results of the first.", "read_section", {"source": "holt2014", "section": "results"},
        "Eleven blocks, five of them with extensive green roofs (substrate 8 cm), were measured in the summers of 2012 and 2013. The mean of the daily maxima on the top floor was [[fact|1.9 °C lower under green roofs (95 % interval 1.2 to 2.6)]]. "
        "No effect could be shown two floors below the roof. The weather station stood on a neighbouring school. Instruments were calibrated every six weeks; two loggers failed in August 2013 and their days are left out. "
        "Tenants were asked to keep a diary of open windows, which 41 of 66 households did. Diaries and temperatures are published as supplementary tables S3 to S9.", "explore")
    t.t("A note, so that it is kept.", "save_note", {"text": "holt2014: 11 blocks, 1.9 °C lower maxima on the top floor, none two floors below"}, "saved as note 1", "document")
    t.t("Next.", "read_section", {"source": "perez2019", "section": "results"},
        "Four blocks were measured for one summer before and two summers after greening. After correction for the outdoor temperature the maxima fell by [[fact|2.4 °C in the first summer and 1.1 °C in the second]]. "
        "The authors attribute the difference to the drought of the second summer, when the substrate held less than 10 % water. The roofs were not irrigated. Blinds were replaced in one block between the summers; leaving it out changes the figures by 0.1 °C.", "explore")
    t.a("So perez2019 agrees with holt2014 in a wet summer and shows half the effect in a dry one. Water looks like the key.", "explore")
    t.point()
    t.u("Interesting. [[constraint:C4:framing|Please keep the text neutral, the council is divided]]; no recommendation.")
    t.a("Understood: findings only, no recommendation.")
    t.t("The third source should answer the question of water.", "read_section", {"source": "osei2021", "section": "results"},
        "In the heat wave of July 2019 six blocks were compared: two with irrigated green roofs, two with dry ones, two with bitumen. Top-floor maxima were [[fact|3.0 °C lower with irrigation and 0.4 °C lower without]], against bitumen. "
        "The irrigation took [[fact|2.6 litres per square metre and day]]. Differences between the dry green roofs and bitumen were within the error of the instruments (0.5 °C). Night temperatures did not differ between any of the groups.", "explore")
    t.a("That fits: dry green roofs do next to nothing in a heat wave, irrigated ones do most. [[fact|Nights are not affected]], which matters for health and which I will say.", "explore")
    t.t("And the limits of that study.", "read_section", {"source": "osei2021", "section": "limitations"},
        "Six buildings, one heat wave of nine days. The irrigated blocks were also the newest (2008 and 2011), [[fact|so that part of the difference may come from insulation]]. The bitumen roofs dated from 1974 and 1979. Funding: a maker of irrigation systems provided the equipment.", "verify")
    t.t("I keep that.", "save_note", {"text": "osei2021: 3.0 irrigated vs 0.4 dry; newest blocks irrigated; equipment by a maker of irrigation"}, "saved as note 2", "document")
    t.a("[[decision|The 3.0 °C must be reported with the caveat about age and funding.]]", "verify")
    t.u("One change: [[constraint:C5:length|the clerk wants 450 words at most, not 600]].")
    t.superseded("length in words", "600", "450")
    t.a("450 words. Then the background sources get one sentence each.")
    t.t("Costs, in one figure.", "read_section", {"source": "lumley2018", "section": "summary"},
        "Over forty years an extensive green roof costs [[fact|18 to 27 euros per square metre more than bitumen]], after savings on repairs. The range depends mostly on the scaffold. Prices are of 2017.", "explore")
    t.t("And the tenants.", "read_section", {"source": "nagy2022", "section": "summary"},
        "Of 1,204 households on top floors [[fact|38 % under green and 57 % under bitumen roofs complained about heat]]. The survey has no measurements, and the answering rate was 29 %.", "explore")
    t.a("nagy2022 has no measurements, so by your first rule it may not carry any claim. [[decision|I leave nagy2022 out altogether.]]", "verify")
    t.superseded("use of nagy2022", "background only", "leave nagy2022 out")
    t.point()
    t.u("Right. And [[goal|please add a paragraph on what is unknown for Arnhavn in particular]]: [[fact|our blocks have six floors, were built in 1968, and tap water is rationed in July]].")
    t.a("That last point is decisive: the effect in heat waves depends on water, and irrigation takes 2.6 litres per square metre and day.", "explore")
    t.t("Is there a source for roofs on blocks of the 1960s?", "search_papers", {"query": "green roof 1960s panel block measured"}, '[]', "explore")
    t.t("Perhaps under rain water storage.", "search_papers", {"query": "green roof irrigation rainwater cistern measured temperature"},
        '[{"key": "vik2023", "title": "Cisterns for irrigated roofs in a port city: yields of three years", "type": "measurement"}]', "explore")
    t.t("That is a measurement from 2023.", "read_section", {"source": "vik2023", "section": "results"},
        "Cisterns of [[fact|20 litres per square metre of roof lasted 8 days without rain]] at the usual rate of irrigation. In two of three Julys there was a dry spell longer than that. Indoor temperatures were not measured.", "explore")
    t.a("[[decision|vik2023 goes into the paragraph on Arnhavn: a cistern bridges eight days, but it says nothing on temperatures.]]", "implement")
    t.point()
    t.u("Good. Now the text, please.")
    t.a("Green roofs and summer heat in apartment blocks\n\nMeasurements from three studies show lower peak temperatures on top floors under green roofs. In eleven blocks the daily maxima were 1.9 °C lower (95 % interval 1.2 to 2.6); two floors below no effect could be shown [holt2014]. "
        "In four blocks measured before and after greening the maxima fell by 2.4 °C in the first summer and by 1.1 °C in a second, dry one [perez2019]. In a heat wave of nine days the maxima were 3.0 °C lower with irrigation and 0.4 °C lower without, the latter within the error of the instruments [osei2021]; "
        "the irrigated blocks were the newest, so part of the difference may come from insulation, and a maker of irrigation systems provided the equipment. Nights did not differ.\n\n"
        "Over forty years a green roof costs 18 to 27 euros per square metre more than bitumen, at prices of 2017 [lumley2018].\n\n"
        "Unknown for Arnhavn: no measured study treats blocks of the 1960s; of six floors only the upper ones can be expected to change. Tap water is rationed in July, and irrigation took 2.6 litres per square metre and day. Cisterns of 20 litres per square metre lasted eight days, shorter than the dry spell in two of three Julys, and that study did not measure indoor temperatures [vik2023].", "document")
    t.done()
    t.u("Excellent. How many words, and does anything in it recommend?")
    t.a("About 220 words, below the 450 that the clerk allows, and it holds findings only. Simulations, brandt2009 and nagy2022 are not used.", "verify")
    t.probe("goal", "For whom is the synthesis?", "the city council of Arnhavn", "a maker of irrigation systems", "a journal")
    t.probe("constraint", "How many words are allowed in the end?", "450", "600", "250")
    t.probe("constraint", "Which kind of source is not allowed?", "pure simulations", "measurements in heat waves", "studies with few buildings")
    t.probe("constraint", "May the text recommend something?", "no", "yes, green roofs", "yes, irrigation")
    t.probe("artifact", "How much lower were the maxima with irrigation in the heat wave?", "3.0 °C", "1.9 °C", "2.4 °C")
    t.probe("decision", "What happened with nagy2022?", "it was left out", "it is cited for complaints", "it carries the main claim")
    t.probe("continuation", "What had to be added for Arnhavn?", "a paragraph on what is unknown", "a table of costs", "a map of roofs")
    return t


TALKS = [simple(), edge_cases(), research()]
