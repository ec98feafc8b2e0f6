# Korean (합니다 form). What each message is for is said in en.ftl.

language-name = 한국어

waiting-title = 대기 중입니다
waiting-lead = 지금 많은 분이 접속하고 있습니다. 이 페이지를 닫아도 순서는 유지됩니다.
standstill-title = 대기열이 잠시 멈췄습니다
standstill-lead = 지금은 입장이 중단된 상태입니다. 고객님의 순서는 그대로 유지됩니다.
near-title = 거의 다 왔습니다
near-lead = 곧 고객님 차례입니다. 잠시만 기다려 주세요.
turn-title = 고객님 차례입니다
turn-lead = 지금 입장하실 수 있습니다.
turn-lead-auto = 지금 입장 중입니다.
turn-remaining = { $count ->
   *[other] 앞으로 { $n }초 동안 자리를 맡아 둡니다.
}
turn-remaining-minutes = { $count ->
   *[other] 앞으로 { $n }분 동안 자리를 맡아 둡니다.
}
arriving-title = 대기열에 들어가는 중입니다
arriving-lead = 순서를 받고 있습니다. 잠시만 기다려 주세요.
arriving-cookies = 화면이 바뀌지 않나요? 순서를 유지하려면 브라우저에서 쿠키를 허용해야 합니다.
many-arriving-title = 지금 많은 분이 오고 있습니다
many-arriving-lead = 잠시만 기다려 주세요. 한 번에 받을 수 있는 인원보다 많은 분이 줄을 서려고 합니다. 이 페이지가 자동으로 다시 시도합니다.
cookies-needed-title = 쿠키가 필요합니다
cookies-needed-lead = 브라우저에 쿠키가 저장되지 않아 순서를 잡을 수 없습니다. 이 사이트의 쿠키를 허용한 다음 다시 확인하십시오.
held-title = 고객님의 순서는 유지됩니다
held-lead = 저희 쪽 장애로 대기열이 잠시 멈췄습니다. 이 페이지는 자동으로 계속됩니다.
held-new-title = 잠시만 기다려 주세요
held-new-lead = 지금은 대기열에 연결할 수 없습니다. 이 페이지가 자동으로 다시 시도합니다.
gone-title = 차례가 지났습니다
gone-lead = 입장 시간이 지났거나 대기열에서 나가셨습니다. 맨 뒤에서 다시 줄을 서실 수 있습니다.
left-title = 대기열에서 나가셨습니다
left-lead = 순서가 다음 분에게 넘어갔습니다. 언제든지 돌아와 맨 뒤에서 다시 줄을 서실 수 있습니다.
moved-title = 순서가 옮겨졌습니다
moved-lead = 다른 기기나 브라우저로 순서를 옮기셨습니다. 그곳에서 계속해 주세요.
closed-title = 마감되었습니다
closed-lead = 더 이상 입장할 수 없으며 새로 줄을 설 수도 없습니다.
away-title = 지금은 이용할 수 없습니다
away-lead = 현재 이 사이트는 입장을 받지 않습니다. 나중에 다시 방문해 주세요.
limited-title = 요청이 너무 많습니다
limited-lead = 사용 중인 기기나 네트워크의 요청이 이 사이트의 허용 횟수를 넘었습니다. 잠시 기다린 뒤 계속해 주세요.
outside-title = 아직 입장 전입니다
outside-lead = 사이트를 열면 대기열에 들어갑니다.
not-done-title = 요청이 처리되지 않았습니다
not-done-lead = 아직 입장하지 않아 사이트에 아무것도 전송되지 않았습니다. 사이트를 열어 대기열에 들어간 뒤, 입장하시면 다시 시도해 주세요.
unknown-site-title = 알 수 없는 사이트
unknown-site-lead = 이 이름의 사이트는 여기에 없습니다.
failed-title = 사이트가 응답하지 않습니다
failed-lead = 고객님의 잘못이 아닙니다. 잠시 후 다시 시도해 주세요.
refused-title = 처리하지 못했습니다
refused-lead = 이전 페이지로 돌아가 다시 시도해 주세요.
inside-title = 입장하셨습니다
inside-lead = 이 페이지를 닫으셔도 됩니다.
handoff-title = 입장하셨습니다
handoff-lead = 사이트로 이동하고 있습니다.
confirm-title = 확인해 주세요
confirm-lead = 이미 입장하셨습니다. 계속하기 전에 사이트에서 확인을 요청합니다.
elsewhere-title = 순서가 이 기기로 옮겨졌습니다
elsewhere-lead = 이 기기에서 사이트를 열고 로그인해 주세요. 순서는 그대로 유지됩니다.
for-site = 다음 사이트로 이동합니다: { $site }

people-ahead = 앞에 대기 중인 인원
people-ahead-of-you = { $count ->
    [0] 다음이 고객님 차례입니다
   *[other] 앞에 { $n }명이 있습니다
}
your-number = 대기 번호
estimated-wait = 예상 대기 시간
wait-unknown = 아직 알 수 없음
wait-less-than-a-minute = 1분 미만
wait-minutes = { $count ->
   *[other] 약 { $n }분
}
wait-hours = { $count ->
   *[other] 약 { $n }시간
}
progress-since-joining = 대기 시작 후 진행 상황
updated-at = { $time } 업데이트
connection-lost = 연결이 끊겼습니다. 순서는 유지되며, 이 페이지가 자동으로 다시 시도합니다.
what-happens = 차례가 되면 이 페이지에서 자동으로 입장합니다.
what-happens-button = 차례가 되면 여기에 버튼이 나타납니다. 그때부터 잠시 동안 자리를 맡아 둡니다.
keep-open = 차례가 가까워지면 이 페이지를 열어 두세요. 그때 접속해 있는 분부터 입장합니다.
keep-cookies = 순서는 이 브라우저에 저장되어 있습니다. 쿠키를 삭제하지 마세요.
refresh-by-itself = { $count ->
   *[other] 이 페이지는 { $n }초마다 자동으로 새로 고쳐집니다.
}
notice-from-operator = 안내

cues = 차례가 되면
cue-sound = 소리로 알림
cue-notification = 알림 표시
cue-notification-blocked = 이 브라우저에서 알림이 차단되어 있습니다

enter-button = 지금 입장하기
continue-button = 계속하기
ask-again = 지금 확인하기
join-button = 다시 줄 서기
home-button = 사이트로 돌아가기
leave-button = 대기열에서 나가기
leave-question = 순서를 포기하시겠습니까? 다음 분에게 넘어가며 되돌릴 수 없습니다.
leave-confirm = 예, 나가겠습니다
move-button = 다른 기기에서 계속하기
move-title = 순서를 다른 기기로 옮기기
move-lead = 다른 기기에서 이 링크를 열어 주세요. 순서가 그 기기로 옮겨지고 이 페이지는 종료됩니다.
move-qr-text = 링크의 QR 코드
move-expires = { $count ->
   *[other] 링크는 { $n }분 동안 한 번만 사용할 수 있습니다.
}
move-copy = 링크 복사
move-copied = 복사했습니다
move-close = 닫기
take-title = 여기에서 계속 대기하기
take-lead = 순서가 이 브라우저로 옮겨집니다. 다른 기기에서는 더 이상 사용할 수 없습니다.
take-instead = 이 브라우저가 지금 가지고 있는 순서는 포기하게 됩니다.
take-button = 내 순서를 여기로 옮기기
take-failed-title = 이 링크는 더 이상 사용할 수 없습니다
take-failed-lead = 이미 사용했거나 유효 시간이 지났습니다. 순서를 가지고 있는 기기에서 새 링크를 만들어 주세요.
