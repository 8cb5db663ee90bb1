
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The translator's rules for texts.  Broken by: a delta without its part that
 * is dropped or sent by guess, a lost delta that stays lost, a contradicted or
 * abandoned text that is not discarded or takes another part with it, half a
 * surrogate pair that is sent.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "rules.h"


static void
test_deltas(void)
{
    begin();
    text("prt_1", "msg_a", "", 0);
    delta("prt_1", "msg_a", "Hel");
    delta("prt_1", "msg_a", "lo");
    text("prt_1", "msg_a", "Hello", 1);
    text("prt_1", "msg_a", "Hello", 1);
    delta("prt_1", "msg_a", "lo");
    expect("agent_message msg_a 'Hel'\nagent_message msg_a 'lo'",
           "deltas, and a snapshot that says the same");

    text("prt_2", "msg_a", "", 0);
    delta("prt_2", "msg_a", "one ");
    text("prt_2", "msg_a", "one ", 0);
    text("prt_2", "msg_a", "", 0);
    delta("prt_2", "msg_a", "two ");
    text("prt_2", "msg_a", "one ", 0);
    expect("agent_message msg_a 'one '\nagent_message msg_a 'two '",
           "older snapshots on the way say nothing");

    text("prt_2", "msg_a", "one two three", 1);
    expect("agent_message msg_a 'three'", "a lost last delta is filled in");

    text("prt_3", "msg_a", "", 0);
    delta("prt_3", "msg_a", "one ");
    delta("prt_3", "msg_a", "three");
    text("prt_3", "msg_a", "one two three", 1);
    expect("agent_message msg_a 'one '\nagent_message msg_a 'three'\n"
           "discard msg_a 6..7\nagent_message msg_a 'one two three'",
           "a lost delta in the middle");

    text("prt_4", "msg_a", "", 0);
    delta("prt_4", "msg_a", "four");
    delta("prt_4", "msg_a", " \\n");
    text("prt_4", "msg_a", "four", 1);
    expect("agent_message msg_a 'four'\nagent_message msg_a ' \n'",
           "stored without the white space at its end");

    text("prt_5", "msg_a", "", 0);
    delta("prt_5", "msg_a", "five!");
    text("prt_5", "msg_a", "five", 1);
    expect("agent_message msg_a 'five!'\ndiscard msg_a 12..12\n"
           "agent_message msg_a 'five'",
           "stored without something else at its end");

    delta("prt_3", "msg_a", "x");
    event(ROOT, "message.part.delta", "'messageID':'msg_a','partID':'prt_9',"
          "'field':'output','delta':'x'");
    expect("", "no delta after the end, none of another field");

    tap_is(state()->nopen, 1, "only the message is open");

    finish("end end_turn", "end");
}


static void
test_unknown(void)
{
    begin_bare();
    user(TURN, 1000);
    delta("prt_1", "msg_a", "one ");
    delta("prt_1", "msg_a", "two ");
    tap_is(state()->nheld, 2, "deltas of an unknown message are held");
    tap_is(cJSON_GetArraySize(f.resolves), 1, "and it is looked up once");

    assistant("msg_a", TURN, 1001, "");
    expect("", "the message alone does not say what the part is");
    delta("prt_1", "msg_a", "three ");

    text("prt_1", "msg_a", "one ", 0);
    delta("prt_1", "msg_a", "four");
    expect("agent_message msg_a 'one '\nagent_message msg_a 'two '\n"
           "agent_message msg_a 'three '\nagent_message msg_a 'four'",
           "all in their order when the part is known");
    tap_is(state()->nheld, 0, "nothing is held any more");

    text("prt_1", "msg_a", "one two three four", 1);
    expect("", "and none twice");

    delta("prt_2", "msg_b", "mine");
    text("prt_2", "msg_b", "mine too", 0);
    user("msg_b", 1002);
    expect("", "what is a user's is not said");
    tap_is(state()->nheld, 0, "nor held");

    delta("prt_7", "msg_h", "mine again");
    tap_is(state()->nheld, 1, "a delta before its user's message");
    user("msg_h", 1002);
    tap_is(state()->nheld, 0, "is dropped with it");

    tap_is(cJSON_GetArraySize(f.resolves), 3, "each was looked up");
    delta("prt_8", "msg_a/../x", "x");
    tap_is(cJSON_GetArraySize(f.resolves), 3, "but nothing that is no id");
    event(ROOT, "message.removed", "'messageID':'msg_a/../x'");

    delta("prt_3", "msg_c", "a ");
    rest(ROOT, "[{'info':{'id':'" TURN "','role':'user','time':{'created':"
         "1000}},'parts':[]},{'info':{'id':'msg_c','role':'assistant',"
         "'parentID':'" TURN "','time':{'created':1003}},'parts':["
         "{'id':'prt_3','messageID':'msg_c','type':'reasoning','text':''}]}]");
    delta("prt_3", "msg_c", "b");
    expect("agent_thought msg_c 'a '\nagent_thought msg_c 'b'",
           "a look-up tells what it is");

    delta("prt_4", "msg_d", "a");
    rest(ROOT, "[{'info':{'id':'msg_d','role':'assistant','parentID':"
         "'msg_old','time':{'created':900}},'parts':[]}]");
    expect("", "or that it is of an earlier turn");
    tap_is(state()->nheld, 0, "whose deltas are dropped");

    finish("end end_turn", "end");
}


static void
test_unknown_limit(void)
{
    int   i;
    char  big[2048];

    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';

    begin();

    for (i = 0; i < 120; i++) {
        delta("prt_1", "msg_a", big);
    }

    tap_ok(state()->nheld == 120 && !f.forgot, "much is held");

    for (i = 0; i < 300; i++) {
        delta("prt_1", "msg_a", big);
    }

    tap_ok(state()->nheld == 0 && f.forgot == 1, "but not without a limit");

    text("prt_1", "msg_a", "", 0);
    expect("", "beyond it no delta counts");
    text("prt_1", "msg_a", "all", 1);
    expect("agent_message msg_a 'all'", "but the final snapshot");

    finish("end end_turn", "end");
}


static void
test_discard(void)
{
    begin();
    text("prt_1", "msg_a", "", 0);
    text("prt_2", "msg_a", "", 0);
    delta("prt_1", "msg_a", "a");
    delta("prt_1", "msg_a", "b");
    delta("prt_2", "msg_a", "x");
    delta("prt_1", "msg_a", "c");
    delta("prt_2", "msg_a", "y");
    text("prt_1", "msg_a", "ABC", 1);
    text("prt_2", "msg_a", "xy", 1);
    expect("agent_message msg_a 'a'\nagent_message msg_a 'b'\n"
           "agent_message msg_a 'x'\nagent_message msg_a 'c'\n"
           "agent_message msg_a 'y'\n"
           "discard msg_a 1..2\ndiscard msg_a 4..4\nagent_message msg_a 'ABC'",
           "a discard spares the chunks of another part");

    text("prt_1", "msg_a", "", 1);
    expect("discard msg_a 8..8", "a text that became empty");

    event(ROOT, "message.part.removed",
          "'messageID':'msg_a','partID':'prt_2'");
    delta("prt_2", "msg_a", "z");
    text("prt_2", "msg_a", "xyz", 1);
    expect("discard msg_a 3..3\ndiscard msg_a 5..5", "a part removed");

    text("prt_3", "msg_a", "gone", 0);
    tool("prt_4", "call_1", "'status':'running','input':{}");
    tap_is(state()->nopen, 3, "a message, a text and a call are open");

    event(ROOT, "message.removed", "'messageID':'msg_a'");
    expect("agent_message msg_a 'gone'\nstart call_1 bash\n"
           "in_progress call_1 bash '-'\ndiscard msg_a 12..12",
           "a message removed");
    tap_is(state()->nopen, 0, "nothing of it is open");

    finish("end end_turn", "end");
}


static void
test_retry(void)
{
    begin();
    part("prt_0", "msg_a", "'type':'reasoning','text':'Hm','time':"
         "{'start':1,'end':2}");
    text("prt_1", "msg_a", "", 0);
    delta("prt_1", "msg_a", "The ans");
    event(ROOT, "session.status", "'status':{'type':'retry','attempt':1,"
          "'message':'overloaded','next':5}");
    tap_ok(state()->busy, "a retry is busy");

    event(ROOT, "session.status", "'status':{'type':'busy'}");

    text("prt_2", "msg_a", "", 0);
    delta("prt_2", "msg_a", "The ");
    delta("prt_2", "msg_a", "answer");
    text("prt_2", "msg_a", "The answer", 1);
    expect("agent_thought msg_a 'Hm'\nagent_message msg_a 'The ans'\n"
           "retry 1 'overloaded'\ndiscard msg_a 2..2\n"
           "agent_message msg_a 'The '\nagent_message msg_a 'answer'",
           "what a failure cut off is void when it is said again");

    assistant("msg_a", TURN, 1001, ",'completed':9},'finish':'stop'");
    event(ROOT, "session.idle", "'x':1");
    tap_ok(state()->idle && ngx_http_agentstream_translate_settled(f.tr),
           "the part left behind is not waited for");

    rest(ROOT, "[{'info':{'id':'" TURN "','role':'user'},'parts':[]},"
         "{'info':{'id':'msg_a','role':'assistant','time':{'completed':9}},"
         "'parts':[{'id':'prt_0','messageID':'msg_a','type':'reasoning',"
         "'text':'Hm'},{'id':'prt_1','messageID':'msg_a','type':'text',"
         "'text':''},{'id':'prt_2','messageID':'msg_a','type':'text',"
         "'text':'The answer'}]}]");
    expect("", "as it is stored");

    finish("end end_turn", "end");

    /* parts that a retry did not leave behind */

    begin();
    text("prt_1", "msg_a", "", 0);
    text("prt_2", "msg_a", "", 0);
    delta("prt_1", "msg_a", "one ");
    delta("prt_2", "msg_a", "two ");
    event(ROOT, "session.status", "'status':{'type':'retry','attempt':1}");
    text("prt_1", "msg_a", "one ", 1);
    delta("prt_2", "msg_a", "three");
    text("prt_3", "msg_a", "four", 1);
    expect("agent_message msg_a 'one '\nagent_message msg_a 'two '\n"
           "retry 1 ''\nagent_message msg_a 'three'\n"
           "agent_message msg_a 'four'", "parts that go on are not void");
    finish("end end_turn", "end");

    /* the same without the second attempt */

    begin();
    text("prt_1", "msg_a", "", 0);
    delta("prt_1", "msg_a", "The ans");
    event(ROOT, "session.status", "'status':{'type':'retry','attempt':1}");
    assistant("msg_a", TURN, 1001, ",'completed':9}");
    event(ROOT, "session.idle", "'x':1");
    tap_ok(!ngx_http_agentstream_translate_settled(f.tr), "to be looked up");
    rest(ROOT, "[{'info':{'id':'" TURN "','role':'user'},'parts':[]},"
         "{'info':{'id':'msg_a','role':'assistant','time':{'completed':9}},"
         "'parts':[{'id':'prt_1','messageID':'msg_a','type':'text',"
         "'text':''}]}]");
    expect("agent_message msg_a 'The ans'\nretry 1 ''\ndiscard msg_a 1..1",
           "a retry that was given up");

    if (ngx_http_agentstream_translate_finish(f.tr, 1) != NGX_OK) {
        tap_ok(0, "finish");
    }

    finish("end cancelled", "the abort was ours");
}


static void
test_surrogates(void)
{
    begin();
    text("prt_1", "msg_a", "", 0);
    delta("prt_1", "msg_a", "x\\ud83d");
    delta("prt_1", "msg_a", "\\ude00y");
    delta("prt_1", "msg_a", "\\ud83d");
    delta("prt_1", "msg_a", "\\ud83d");
    delta("prt_1", "msg_a", "\\ude00");
    text("prt_1", "msg_a", "x\\ud83d\\ude00y\\ufffd\\ud83d\\ude00!", 1);
    expect("agent_message msg_a 'x'\n"
           "agent_message msg_a '\xf0\x9f\x98\x80y'\n"
           "agent_message msg_a '\xef\xbf\xbd'\n"
           "agent_message msg_a '\xf0\x9f\x98\x80'\n"
           "agent_message msg_a '!'",
           "half a pair waits for its other half");

    text("prt_2", "msg_a", "", 0);
    delta("prt_2", "msg_a", "x\\ud83d");
    text("prt_2", "msg_a", "x\xf0\x9f\x98\x80", 1);
    expect("agent_message msg_a 'x'\nagent_message msg_a '\xf0\x9f\x98\x80'",
           "or for the final snapshot");

    finish("end end_turn", "end");
}


static void
test_joined(void)
{
    static char  state[66000];

    /* a packet that leaves a large buffer behind */

    begin();
    sprintf(state, "'status':'completed','input':{},'output':'");
    memset(state + strlen(state), 'x', 64600);
    strcat(state, "'");
    tool("prt_t", "call_1", state);
    shown = cJSON_GetArraySize(f.packets);

    text("prt_1", "msg_a", "", 0);
    delta("prt_1", "msg_a", "one");
    event(ROOT, "session.status", "'status':{'type':'retry','attempt':1}");
    text("prt_2", "msg_a", "", 0);
    delta("prt_2", "msg_a", "\\ud83d");
    delta("prt_2", "msg_a", "\\ude00 two");
    expect("agent_message msg_a 'one'\nretry 1 ''\ndiscard msg_a 3..3\n"
           "agent_message msg_a '\xf0\x9f\x98\x80 two'",
           "a pair that is whole when something else is discarded");

    finish("end end_turn", "end");
}


static void
test_gap(void)
{
    begin();
    text("prt_1", "msg_a", "", 0);
    delta("prt_1", "msg_a", "one ");
    delta("prt_9", "msg_a", "held");
    ngx_http_agentstream_translate_gap(f.tr);
    tap_is(state()->nheld, 0, "a gap: nothing held is trusted");
    delta("prt_1", "msg_a", "three ");
    text("prt_2", "msg_a", "", 0);
    delta("prt_2", "msg_a", "new");
    expect("agent_message msg_a 'one '\nagent_message msg_a 'new'",
           "a gap silences the parts that were open");

    rest(ROOT, "[{'info':{'id':'" TURN "','role':'user'},'parts':[]},"
         "{'info':{'id':'msg_a','role':'assistant'},'parts':["
         "{'id':'prt_1','messageID':'msg_a','type':'text','text':''},"
         "{'id':'prt_3','messageID':'msg_a','type':'text','text':''}]}]");
    delta("prt_3", "msg_a", "late");
    expect("", "and those that began in it");

    text("prt_9", "msg_a", "", 0);
    delta("prt_9", "msg_a", " and more");
    text("prt_9", "msg_a", "", 1);
    expect("", "and those that were held");

    text("prt_1", "msg_a", "one two three four", 1);
    text("prt_3", "msg_a", "too late", 1);
    expect("agent_message msg_a 'two three four'\n"
           "agent_message msg_a 'too late'", "until their final snapshots");

    rest(ROOT, "[{'info':{'id':'" TURN "','role':'user'},'parts':[]},"
         "{'info':{'id':'msg_a','role':'assistant','finish':'stop',"
         "'time':{'completed':1}},'parts':["
         "{'id':'prt_1','messageID':'msg_a','type':'text',"
         "'text':'one two three four'},"
         "{'id':'prt_3','messageID':'msg_a','type':'text',"
         "'text':'too late'}]},"
         "{'info':{'id':'msg_b','role':'assistant','parentID':'msg_x',"
         "'finish':'length','time':{'completed':1}},'parts':["
         "{'id':'prt_4','messageID':'msg_b','type':'text',"
         "'text':'unheard'}]}]");
    expect("discard msg_a 2..2\nagent_message msg_b 'unheard'",
           "what is stored is the truth");
    tap_is(state()->steps, 2, "two steps");
    tap_is(state()->nopen, 0, "nothing is open");

    finish("end max_tokens", "end");

    /* a look-up may be ahead of the events */

    begin();
    text("prt_1", "msg_a", "", 0);
    delta("prt_1", "msg_a", "one ");
    rest(ROOT, "[{'info':{'id':'" TURN "','role':'user'},'parts':[]},"
         "{'info':{'id':'msg_a','role':'assistant'},'parts':["
         "{'id':'prt_1','messageID':'msg_a','type':'text',"
         "'text':'one two '}]}]");
    delta("prt_1", "msg_a", "two ");
    expect("agent_message msg_a 'one '\nagent_message msg_a 'two '",
           "what is fetched on the way is not sent before the events");

    ngx_http_agentstream_translate_gap(f.tr);
    rest(ROOT, "[{'info':{'id':'" TURN "','role':'user'},'parts':[]},"
         "{'info':{'id':'msg_a','role':'assistant'},'parts':["
         "{'id':'prt_1','messageID':'msg_a','type':'text',"
         "'text':'one two three '}]}]");
    delta("prt_1", "msg_a", "three ");
    expect("agent_message msg_a 'three '", "unless they do not count");
    finish("end end_turn", "end");
}


int
main(void)
{
    test_deltas();
    test_unknown();
    test_unknown_limit();
    test_discard();
    test_retry();
    test_surrogates();
    test_joined();
    test_gap();

    return tap_done();
}
